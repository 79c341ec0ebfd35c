"""One word, one meaning: words that were replaced stay out of code, texts and docs.

What replaced each stands next to it. Rows of tables under "was" (of a page for those who upgrade)
are not read: they tell what something was called before.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ROOMS = ("ehkafka", "tests", "examples", "scripts", "docs")
TABLE_OF_NAMES = "| was | is |"
# In all files.
REPLACED = {
    r"abandon\w*": "unfinished (the error), returned (the records)",
    r"(?<![a-z])(?:un)?mend(?:s|ed|ing)?(?![a-z])": "fix",
    r"(?<![a-z])stints?(?![a-z])": "turn",
    r"(?<![a-z])(?:un)?told(?![a-z])": "reported, logged, distinguished",
    r"troubles?(?![a-z])": "problem",
    r"(?<!\w)_?said\(": "describe",
}
# In the package: its logs, errors and docstrings are read at three in the morning.
PHRASES = {
    r"com(?:e|es|ing) again|came again": "be passed again, redelivered, received again",
    r"left behind": "returned (records), left running (a hook), behind (the mirror)",
    r"g(?:ave|ives?|iven|iving) (?:it |them )?back": "return",
    r"leaves with(?!out)": "stop, exit",
    r"(?:goes|go|went) on by (?:itself|themselves)": "recover, continue",
    r"tr(?:ied|ies) again": "retried, retries",
    r"made anew|made again": "recreated",
    r"(?<!\w)beside(?!s?\w)": "next to, with, in addition to, compared with",
    r"asked? to leave": "stop, end the process",
}
# As a name in the package, whole or as one of its words; prose may have them.
NAMES = {
    "hear|hears|heard|hearing": "on_error, note, reported, errors",
    "look|looks": "check, sample, inspect",
    "tell|tells|said": "report, describe, saved",
}
# A file's own method, of Python's protocol.
NAMES_OF_OTHERS = {("ehkafka/spark/sink/stage.py", "tell")}


@cache
def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a file with their numbers, but for tables of what was and what is."""
    is_of_names, found = False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        is_of_names = line.startswith("|") and (is_of_names or line.startswith(TABLE_OF_NAMES))
        if not is_of_names:
            found.append((number, line))
    return found


@cache
def _text(path: Path) -> str:
    return "\n".join(line for _, line in _lines(path))


@cache
def _sources() -> list[Path]:
    """Return all files that are read; not the list of words itself."""
    found = [path for room in ROOMS for path in (ROOT / room).rglob("*")]
    found += [ROOT / "README.md", ROOT / "DESIGN.md"]
    kinds = {".py", ".md", ".toml", ".html", ".js"}
    return [path for path in found if path.suffix in kinds and path.is_file() and path != Path(__file__)]


@pytest.mark.parametrize("words", [*REPLACED, *PHRASES])
def test_a_replaced_word_stays_out(words: str) -> None:
    """Each finding has its file, its line and the words to use."""
    room = ROOT if words in REPLACED else ROOT / "ehkafka"
    pattern = re.compile(words, re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in _sources()
        if path.is_relative_to(room) and pattern.search(_text(path))
        for number, line in _lines(path)
        if pattern.search(line)
    ]
    assert not found, f"use {(REPLACED | PHRASES)[words]!r}:\n" + "\n".join(found)


@cache
def _names() -> list[tuple[str, int, str]]:
    """Return each name that a file of the package gives, with the file and the line."""
    return [
        (str(file.relative_to(ROOT)), *one)
        for file in (ROOT / "ehkafka").rglob("*.py")
        for one in ((0, file.stem), *_given(ast.parse(_text(file))))
    ]


def _given(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


@pytest.mark.parametrize("words", NAMES)
def test_no_name_has_a_replaced_word(words: str) -> None:
    """Each finding has its file, its line and the name."""
    pattern = re.compile(rf"(?:^|_)(?:{words})(?:_|$)")
    found = [
        f"{path}:{line}: {name}"
        for path, line, name in _names()
        if pattern.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
        and (path, name) not in NAMES_OF_OTHERS
    ]
    assert not found, f"use {NAMES[words]!r}:\n" + "\n".join(found)
