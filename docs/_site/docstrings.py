"""Docstrings as autodoc reads them: what Markdown permits around code, in reStructuredText."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

_CODE = re.compile(r"(?<![`\w])`([^`\n]+)`(?!`)(?=(\w?))")
_FENCE = re.compile(r" *```(?P<language>\w*)")
_ITEM = re.compile(r"(?P<indent> *)- ")


def translate(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Called by autodoc with the lines of each docstring, which are changed in place."""
    lines[:] = _translated(lines)


def _translated(lines: list[str]) -> Iterator[str]:
    """Yield blocks as directives, lists apart, and code with two backticks, ended where a letter follows."""
    is_block, indent = False, None
    for line in lines:
        if item := _ITEM.match(line):
            if item["indent"] != indent:
                yield ""
            indent = item["indent"]
        elif not line.startswith(" "):
            indent = None
        if fence := _FENCE.fullmatch(line):
            is_block = not is_block
            yield from ("", f".. code-block:: {fence['language'] or 'text'}", "") if is_block else ("",)
        elif is_block:
            yield f"   {line}"
        else:
            yield _CODE.sub(lambda found: f"``{found[1]}``" + ("\\ " if found[2] else ""), line)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", translate)
    return {"parallel_read_safe": True}
