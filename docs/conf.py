"""The site of the documentation: `scripts/docs` builds it. Pages by Furo, Markdown by MyST, API by autodoc.

Sphinx reads from the project's root, not from this folder, so that a link means the same here and where the
repository is read: DESIGN.md, CHANGELOG.md and SECURITY.md at the root and the examples' READMEs are pages as
the others, with no copy of them. A link to a file of code leads to a page with that file (`source_pages`).
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "_site")]

import ehkafka  # noqa: E402 - of this checkout

project = "ehkafka"
author = copyright = "The ehkafka authors"  # noqa: A001 - its name at Sphinx
release = version = ehkafka.__version__

root_doc = "docs/index"
include_patterns = ["docs/**.md", "*.md", "examples/README.md", "examples/*/README.md"]
exclude_patterns = [".*", "build", "dist", "ehkafka", "scripts", "tests"]
extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"),
    *("source_pages", "docstrings", "text_blocks", "wide_tables"),
]

# A heading's anchor is the one that a repository's page gives it.
myst_heading_anchors = 6

# The API is read without what the extras bring: the site is built where none is installed.
autodoc_mock_imports = ["pyspark", "pyarrow", "numpy", "pandas", "pytest", "starlette", "uvicorn"]
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
# Docstrings are written with one backtick around code.
default_role = "code"

html_theme = "furo"
html_title = "ehkafka"
html_copy_source = False
html_show_sphinx = False
# The site begins at docs/index.html; this sends a browser there.
html_extra_path = ["_root"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
# A block of commands is copied without its prompt, and without what the command prints.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"
