"""Blocks of text whose lines are sentences, such as those of a log: they wrap, and all others scroll.

In a table or a drawing each character has its place, which a wrapped line would lose.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# The level of a line of the log has a column of its own.
_LEVEL = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) +", re.MULTILINE)
_COLUMNS = re.compile(r"\S {2,}\S|[─│└├→]")
# A longer line is a sentence, for no table of ours is so wide.
LINE_CHARACTERS_MAX = 110


def are_sentences(text: str) -> bool:
    """Whether the lines may wrap."""
    longest = max(map(len, text.splitlines()), default=0)
    return longest > LINE_CHARACTERS_MAX or not _COLUMNS.search(_LEVEL.sub("", text))


class WrapSentences(SphinxPostTransform):
    """Marks the blocks for `_static/site.css`."""

    default_priority = 11

    def run(self, **_: Any) -> None:
        """Look at each block of text of a page."""
        for block in self.document.findall(nodes.literal_block):
            if block.get("language") == "text" and are_sentences(block.astext()):
                block["classes"].append("sentences")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_post_transform(WrapSentences)
    return {"parallel_read_safe": True}
