"""One word, one meaning: words that were replaced stay out of code, texts and docs.

What replaced each stands beside it. The changelog and the appendix of `docs/migrating.md` may name them:
they tell what something was called before.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("ehkafka", "tests", "examples", "scripts", "docs")
MAY_NAME_THEM = {"docs/migrating.md", "tests/architecture/test_words.py"}
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
    r"members\.(?:turns|guarded|parts|choices|telling|asks)(?![a-z])": "access, callbacks, members, …",
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
    found = [path for room in ROOMS for path in (ROOT / room).rglob("*")]
    found += [ROOT / "README.md", ROOT / "DESIGN.md"]
    kinds = {".py", ".md", ".toml", ".html", ".js"}
    return [path for path in found if path.suffix in kinds and path.is_file()]


@pytest.mark.parametrize("word", REPLACED)
def test_a_replaced_word_stays_out(word: str) -> None:
    """Each finding names file, line and the word to use."""
    pattern = re.compile(word, re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in _sources()
        if str(path.relative_to(ROOT)) not in MAY_NAME_THEM
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"use {REPLACED[word]!r}:\n" + "\n".join(found)


def test_only_the_history_checker_gives_verdicts() -> None:
    """What answers a failed record is a decision, what health finds is `Health`."""
    found = [
        str(path.relative_to(ROOT)) for path in _sources() if VERDICT.search(path.read_text(encoding="utf-8"))
    ]
    assert [name for name in found if not name.startswith((*JUDGES, *MAY_NAME_THEM))] == []
