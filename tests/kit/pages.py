"""The project's pages as a reader copies from them: their fenced blocks, and the commands in their text.

Pure; called by the tests of the pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
# Written by `tests/prose`: what it shows is tested where the package says it.
GENERATED = ROOT / "docs" / "reference" / "messages.md"
GUIDES = tuple(page for page in sorted(ROOT.glob("docs/**/*.md")) if page != GENERATED)
PAGES = (ROOT / "README.md", *GUIDES, ROOT / "examples/README.md", *sorted(ROOT.glob("examples/*/README.md")))

# A block that begins like this is a file of its own, which later ones may import.
FILE_NAME = re.compile(r"# (?P<name>\w+\.py)\n")

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>.*)")
_NOT_RUN = re.compile(r" *<!-- not run: (?P<reason>.+) -->")
_INLINE = re.compile(r"(?<!`)`(?P<command>(?:ehkafka|scripts/\w+)(?: [^`]*)?)`(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences; `line` is its first line's number, `not_run` the reason given."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the page's blocks in order. A fence that is never closed is a `ValueError`."""
    blocks: list[Block] = []
    lines = page.read_text().splitlines()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        if opened is None:
            opened = (number, fence["language"].strip())
            continue
        first, language = opened
        opened = None
        if language.startswith("{"):  # a directive of the site, such as a list of pages
            continue
        text = dedent("\n".join(lines[first : number - 1])) + "\n"
        marked = _NOT_RUN.fullmatch(lines[first - 2]) if first > 1 else None
        blocks.append(Block(page, first + 1, language, text, marked["reason"] if marked else None))
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: this fence is never closed")
    return blocks


def shell_commands(block: Block) -> list[str]:
    """Return what a reader types: the lines behind `$ `; a backslash at the end joins lines."""
    joined = block.text.replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


def inline_commands(page: Path) -> list[str]:
    """Return the commands between backticks in the page's text; one that is abbreviated (`…`, `|`) is not."""
    found = [one["command"] for one in _INLINE.finditer(page.read_text())]
    return [one for one in found if not set("…|").intersection(one)]
