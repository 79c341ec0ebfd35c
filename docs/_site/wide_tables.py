"""Tables with many columns, read on a phone: each row as a list, each cell with its column's name before it.

The names are in the page and hidden where the table fits; `_static/site.css` decides that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# So many fit on a phone.
COLUMNS_MAX = 3


class LabelCells(SphinxPostTransform):
    """Names each cell of a wide table."""

    default_priority = 10

    def run(self, **_: Any) -> None:
        """Look at each table of a page."""
        for table in self.document.findall(nodes.table):
            heads = [row for head in table.findall(nodes.thead) for row in head.children]
            if heads and len(heads[0].children) > COLUMNS_MAX:
                table["classes"].append("wide")
                names = [cell.astext() for cell in heads[0].children]
                for body in table.findall(nodes.tbody):
                    for row in body.children:
                        _label(row.children, names)


def _label(cells: list[Any], names: list[str]) -> None:
    """The first cell names the row, so it needs no name."""
    for cell, name in zip(cells[1:], names[1:], strict=False):
        if not cell.astext().strip():
            cell["classes"].append("empty")
        elif name:
            cell.children[0].insert(0, nodes.inline("", f"{name}: ", classes=["column-name"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_post_transform(LabelCells)
    return {"parallel_read_safe": True}
