"""What a line of the log is made of: counts, lists of names, text that may hold anything. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.wording.sentence import ended

if TYPE_CHECKING:
    from collections.abc import Iterable

# A sentence stays readable: more names or a longer text are in the fields of the log record.
NAMES_MAX = 10
TEXT_CHARACTERS_MAX = 500


def printable(text: str) -> str:
    """Escape control characters, line ends, and marks that turn the direction of writing."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def plain(text: str) -> str:
    """Keep a line one line: keys and errors may hold anything, also what forges lines or drives terminals."""
    if len(text) > TEXT_CHARACTERS_MAX:
        text = text[:TEXT_CHARACTERS_MAX] + "…"
    return printable(text)


def clause(text: str) -> str:
    """Return a text as part of a sentence, which has a full stop of its own."""
    return plain(text.strip().removesuffix("."))


def ending(text: str) -> str:
    """Return a text as the end of a sentence, with one mark."""
    return ended(plain(text.strip()))


def cannot_read(where: str, reason: str, *, is_batch: bool) -> str:
    """Name what cannot be read and why: the batch at a record's place; else what the broker refuses."""
    what = f"The batch at {where} cannot be read"
    if not is_batch:
        what = f"The broker does not allow reading {where}"
    return f"{what}: {ending(reason)}"


def names(items: Iterable[object]) -> str:
    """List the first few, and say how many more there are."""
    shown = [plain(str(item)) for item in items]
    more = len(shown) - NAMES_MAX
    return ", ".join(shown[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def records(number: int) -> str:
    """Count records."""
    return "1 record" if number == 1 else f"{number} records"


def returned(number: int) -> str:
    """Say what becomes of records without an outcome."""
    return f"{records(number)} left for the next owner" if number else "no record left"
