"""Tables with many columns as lists of their rows, each cell with its column's name before it.

On a phone that is so for each `wide` table, on any screen for a `very-wide` one. The names are in the page,
and hidden where the table is shown as a table; `_static/site.css` decides that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# So many fit on a phone, and on any screen.
COLUMNS_MAX_ON_PHONE = 3
COLUMNS_MAX = 8


class LabelCells(SphinxPostTransform):
    """Names each cell of a wide table."""

    default_priority = 10

    def run(self, **_: Any) -> None:
        """Look at each table of a page."""
        for table in self.document.findall(nodes.table):
            heads = [row for head in table.findall(nodes.thead) for row in head.children]
            if not heads or len(heads[0].children) <= COLUMNS_MAX_ON_PHONE:
                continue
            is_very_wide = len(heads[0].children) > COLUMNS_MAX
            table["classes"].append("very-wide" if is_very_wide else "wide")
            names = [cell.astext() for cell in heads[0].children]
            if not is_very_wide:
                names[0] = ""  # the first cell is the heading of its row
            for body in table.findall(nodes.tbody):
                for row in body.children:
                    _label(row.children, names)


def _label(cells: list[Any], names: list[str]) -> None:
    for cell, name in zip(cells, names, strict=False):
        if not cell.astext().strip():
            cell["classes"].append("empty")
        elif name:
            cell.children[0].insert(0, nodes.inline("", f"{name}: ", classes=["column-name"]))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_post_transform(LabelCells)
    return {"parallel_read_safe": True}
