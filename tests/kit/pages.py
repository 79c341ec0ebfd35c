"""The project's pages as a reader copies from them: their fenced blocks, and the commands in their text.

Pure; called by the tests of the pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parents[2]
# Written by `tests/prose`: what it shows is tested where the package says it.
GENERATED = ROOT / "docs" / "messages.md"
GUIDES = tuple(page for page in sorted(ROOT.glob("docs/*.md")) if page != GENERATED)
PAGES = (ROOT / "README.md", *GUIDES, *sorted(ROOT.glob("examples/*/README.md")))

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
        text = dedent("\n".join(lines[first : number - 1])) + "\n"
        marked = _NOT_RUN.fullmatch(lines[first - 2]) if first > 1 else None
        blocks.append(Block(page, first + 1, language, text, marked["reason"] if marked else None))
        opened = None
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


def load_yaml(text: str) -> Any:
    """Read block YAML: mappings, lists of mappings, and scalars as texts; anything else fails."""
    lines = []
    for line in text.splitlines():
        if words := re.sub(r"(^|\s+)#.*", "", line).rstrip():
            assert "\t" not in words
            lines.append((len(words) - len(words.lstrip()), words.strip()))
    value, rest = _value_at(lines)
    assert rest == []
    return value


def _value_at(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    """Return what stands at the first line's indent, and the lines after it."""
    indent = lines[0][0]
    items: list[Any] = []
    fields: dict[str, Any] = {}
    while lines and lines[0][0] == indent:
        (_, words), lines = lines[0], lines[1:]
        if words.startswith("- "):
            value, lines = _value_at([(indent + 2, words[2:]), *lines])
            items.append(value)
            continue
        name, colon, scalar = words.partition(":")
        assert colon
        assert name not in fields
        if scalar:
            fields[name] = scalar.strip().strip("'")
        else:
            assert lines[0][0] > indent
            fields[name], lines = _value_at(lines)
    assert not lines or lines[0][0] < indent or items
    assert not (items and fields)
    return items or fields, lines
