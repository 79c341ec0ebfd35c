"""A page for each file of code that a page links to, so that it opens in the browser with its colours.

MyST makes a download of a link to a file. Where the file is text it becomes a link to `files/….html` here;
pictures and data stay downloads.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx


class LinkSources(SphinxPostTransform):
    """Turns downloads of code into links, and remembers the files."""

    default_priority = 9

    def run(self, **_: Any) -> None:
        """Look at each download of a page."""
        for download in list(self.document.findall(addnodes.download_reference)):
            name, path = self.env.relfn2path(download["reftarget"], self.env.docname)
            if lexer_of(path) is None:
                continue
            page = page_of(name)
            sources(self.app)[page] = Path(path)
            uri = self.app.builder.get_relative_uri(self.env.docname, page)
            link = nodes.reference("", "", *download.children, internal=True, refuri=uri)
            download.replace_self(link)


def page_of(name: str) -> str:
    """Return the page of a file by its path from the project's root."""
    return posixpath.join("files", name)


def lexer_of(path: str) -> str | None:
    """Return what colours the file; None for what is no text to read."""
    if Path(path).name == "LICENSE":
        return "text"
    try:
        return str(get_lexer_for_filename(path).aliases[0])
    except (ClassNotFound, IndexError):
        return None


def sources(app: Sphinx) -> dict[str, Path]:
    """Return the linked files by their pages."""
    found: dict[str, Path] = app.env.__dict__.setdefault("linked_sources", {})
    return found


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the pages with the files."""
    highlighter = getattr(app.builder, "highlighter", None)
    for page, path in sorted(sources(app).items()) if highlighter else ():
        name = page.removeprefix("files/")
        body = highlighter.highlight_block(path.read_text(), lexer_of(str(path)) or "text", linenos=False)
        yield page, {"title": name, "body": f"<h1>{name}</h1>\n{body}"}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_post_transform(LinkSources)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True}
