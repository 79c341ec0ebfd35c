"""One word, one meaning: words that were replaced stay out of code, texts and docs.

What replaced each stands beside it. No file is excepted; rows of tables under "was" (the appendix of
`docs/migrating.md`) say what something was called before, and are not read.
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
# Such a table says what has which name now.
TABLE_OF_NAMES = "| was | is |"
REPLACED = {
    r"abandon\w*": "unfinished (the error), returned (the records)",
    r"(?<![a-z])(?:un)?mend(?:s|ed|ing)?(?![a-z])": "fix",
    r"(?<![a-z])stints?(?![a-z])": "turn",
    r"sleepers?(?![a-z])": "idle worker",
    r"whereabouts": "secret_location",
    r"come_by": "pump_from_poll",
    r"let_others_out": "wait_for_senders",
    r"(?<![a-z])wishes(?![a-z])": "arguments (of the drop-in), asked (of a record)",
    r"(?:gave|giv\w+) back to the group": "returned",
    r"(?<![a-z])fates?(?![a-z])": "after_letter (a key's next records), LetterOrigin (a letter's headers)",
    r"(?<![a-z])(?:un)?told(?![a-z])": "reported, logged, distinguished",
    r"troubles?(?![a-z])": "problem",
    r"(?<![a-z])(?:desk|office)(?![a-z])": "the thing itself: failures, letters",
    r"letter_?box": "LetterSender",
    r"(?-i:way_in)(?![a-z])": "reach",
    r"left_behind": "returned",
    r"(?<![a-z])_runner(?![a-z])": "_quick_worker",
    r"(?<!\w)_?said\(": "describe",
    r"internals\.(?:turns|guarded|parts|choices|telling|asks)(?![a-z])": "access, callbacks, log_lines, …",
}
# In the package: what its logs, errors and docstrings say is read at three in the morning.
PHRASES = {
    r"com(?:e|es|ing) again|came again": "be passed again, redelivered, received again",
    r"left behind": "returned (records), left running (a hook), behind (the mirror)",
    r"g(?:ave|ives?|iven|iving) (?:it |them )?back": "return",
    r"leaves with(?!out)": "stop, exit",
    r"(?:goes|go|went) on by (?:itself|themselves)": "recover, continue",
    r"tr(?:ied|ies) again": "retried, retries",
    r"made anew|made again": "recreated",
    r"asked? to leave": "stop, end the process",
}

# As the name of a function, a class, an attribute, a parameter or a module, whole or as one of its words; in
# prose each says what it says. Names of tests are sentences.
NAMES = {
    "box": "the thing itself: letters, outbox",
    "come_by": "pump_from_poll",
    "hear|hears|heard|hearing": "on_error, note, reported, errors",
    "look|looks": "check, sample, inspect",
    "said": "describe, saved, reported",
    "tell|tells": "report, describe",
    "holding|runner|telling|wishes": "ownership, worker, log_lines, arguments",
}
# What the drop-in's files and attributes are called instead; elsewhere each has its usual meaning.
DROP_IN_NAMES = {"asks", "choices", "guarded", "members", "parts", "turns", "wishes"}
# A file's own method, of Python's protocol.
NAMES_OF_OTHERS = {("ehkafka/spark/sink/staged_blob.py", "tell")}

# Only what judges a history gives a verdict.
VERDICT = re.compile(r"verdict", re.IGNORECASE)
JUDGES = (
    "examples/demo",
    "tests",
    "scripts",
    "README.md",
)


@cache
def _sources() -> list[Path]:
    """Return what is read; not the list of words itself."""
    found = [path for room in ROOMS for path in (ROOT / room).rglob("*")]
    found += [ROOT / "README.md", ROOT / "DESIGN.md"]
    found.remove(Path(__file__))
    kinds = {".py", ".md", ".toml", ".html", ".js"}
    return [path for path in found if path.suffix in kinds and path.is_file()]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, but for tables of what was and what is."""
    is_of_names = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        is_of_names = line.startswith("|") and (is_of_names or line.startswith(TABLE_OF_NAMES))
        if not is_of_names:
            yield number, line


@cache
def _text(path: Path) -> str:
    return "\n".join(line for _number, line in _lines(path))


def _found(words: str, sources: list[Path]) -> list[str]:
    pattern = re.compile(words, re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in sources
        if pattern.search(_text(path))
        for number, line in _lines(path)
        if pattern.search(line)
    ]


@cache
def _names() -> list[tuple[str, int, str]]:
    """Return each name that a file of ours gives, with the file and the line; a module's is on line 0."""
    found = []
    for file in (file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        path = str(file.relative_to(ROOT))
        modules = [(0, name) for name in (file.stem, file.parent.name) if not name.startswith("test_")]
        found += [(path, *one) for one in (*modules, *_given(ast.parse(file.read_text(encoding="utf-8"))))]
    return found


def _given(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if not name.startswith("test_"):
                    yield node.lineno, name
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
        for inner in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
            for target in [*getattr(inner, "targets", ()), getattr(inner, "target", None)]:
                if isinstance(target, ast.Name):
                    yield target.lineno, target.id


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("word", REPLACED)
def test_a_replaced_word_stays_out(word: str) -> None:
    """Each finding names file, line and the word to use."""
    found = _found(word, _sources())
    assert not found, f"use {REPLACED[word]!r}:\n" + "\n".join(found)


@pytest.mark.parametrize("phrase", PHRASES)
def test_the_package_speaks_plainly(phrase: str) -> None:
    """In logs, errors, help texts, docstrings and comments; each finding has its line and better words."""
    found = _found(phrase, [path for path in _sources() if path.is_relative_to(ROOT / "ehkafka")])
    assert not found, f"use {PHRASES[phrase]!r}:\n" + "\n".join(found)


@pytest.mark.parametrize("words", NAMES)
def test_no_name_has_a_replaced_word(words: str) -> None:
    """Each finding has its file, its line and the name."""
    pattern = re.compile(rf"(?:^|_)(?:{words})(?:_|$)")
    found = [
        f"{path}:{line}: {name}"
        for path, line, name in _names()
        if pattern.search(_snake(name)) and (path, name) not in NAMES_OF_OTHERS
    ]
    assert not found, f"use {NAMES[words]!r}:\n" + "\n".join(found)


def test_the_drop_in_names_things_by_what_they_are() -> None:
    """`members` are a group's; the others were words that only their author understood."""
    found = [
        f"{path}:{line}: {name}"
        for path, line, name in _names()
        if path.startswith("ehkafka/consumer/") and name.strip("_") in DROP_IN_NAMES
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def hear(said): box = 1", ["hear", "said"]),
        ("class SaidBox:\n    tell: int\n    look = 1", ["SaidBox", "tell", "look"]),
        ("def f(*tell, **look): self.box, other.said.heard = 1, 2", ["f", "tell", "look", "box", "heard"]),
        ("def test_what_was_said(): ...", []),
    ],
)
def test_names_are_found_where_they_are_given(source: str, names: list[str]) -> None:
    """Of whatever kind but a function's own variables, which no other line reads."""
    assert sorted(name for _line, name in _given(ast.parse(source))) == sorted(names)


def test_only_a_table_of_what_was_may_name_old_words(tmp_path: Path) -> None:
    """The line before it, and the line behind it, are read as any other."""
    page = tmp_path / "page.md"
    page.write_text("a\n| was | is |\n|---|---|\n| told | reported |\nb\n| told | c |\n")
    assert list(_lines(page)) == [(1, "a"), (5, "b"), (6, "| told | c |")]


def test_only_the_history_checker_gives_verdicts() -> None:
    """What answers a failed record is a decision, what health finds is `Health`."""
    found = [
        str(path.relative_to(ROOT))
        for path in _sources()
        if any(VERDICT.search(line) for _, line in _lines(path))
    ]
    assert [name for name in found if not name.startswith(JUDGES)] == []
