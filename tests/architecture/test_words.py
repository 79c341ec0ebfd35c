"""One word, one meaning: words that were replaced stay out of code, texts and docs.

What replaced each stands beside it. No file is excepted; rows of tables under "was" (the appendix of
`docs/migrating.md`) say what something was called before, and are not read.
"""

from __future__ import annotations

import re
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

# Only what judges a history gives a verdict.
VERDICT = re.compile(r"verdict", re.IGNORECASE)
JUDGES = (
    "ehkafka/testing",
    "ehkafka/cli/demo",
    "ehkafka/cli/commands.py",
    "tests",
    "scripts",
    "docs/testing.md",
    "README.md",
)


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


def _found(words: str, sources: list[Path]) -> list[str]:
    pattern = re.compile(words, re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in sources
        for number, line in _lines(path)
        if pattern.search(line)
    ]


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
