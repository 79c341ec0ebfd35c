"""Parts of the log's sentences: counts, lists of names, text that may hold anything. Pure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ehkafka.wording import ended as end_of_sentence

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.events.event import Failure
    from ehkafka.records import TopicPartition

# A sentence stays readable: more names or a longer text are in the fields of the log record.
NAMES_MAX = 10
TEXT_CHARACTERS_MAX = 500


def text(anything: str) -> str:
    """Keep a line one line: keys and errors may hold anything, also what forges lines or drives terminals."""
    if len(anything) > TEXT_CHARACTERS_MAX:
        anything = anything[:TEXT_CHARACTERS_MAX] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in anything)


def clause(anything: str) -> str:
    """Return a text as part of a sentence, which has a full stop of its own."""
    return text(anything.strip().removesuffix("."))


def at_place(event: Failure) -> str:
    """Return the line of the user's code that an event names, in brackets; nothing where it names none."""
    return f" ({text(event.place)})" if event.place else ""


def ended(anything: str) -> str:
    """Return a text as the end of a sentence, with one mark."""
    return end_of_sentence(text(anything.strip()))


def names(items: Iterable[object]) -> str:
    """List the first few, and say how many more there are."""
    shown = [text(str(item)) for item in items]
    more = len(shown) - NAMES_MAX
    return ", ".join(shown[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def partition_ranges(partitions: Iterable[TopicPartition]) -> str:
    """Name partitions shortly: `readings[0-3, 7], alerts[0]`."""
    by_topic = itertools.groupby(sorted(partitions), key=lambda partition: partition.topic)
    return names(f"{topic}[{_ranges([p.partition for p in of_topic])}]" for topic, of_topic in by_topic)


def _ranges(numbers: list[int]) -> str:
    # Of consecutive numbers each one less its place in the list is the same.
    runs = itertools.groupby(enumerate(numbers), key=lambda placed: placed[1] - placed[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(run) for _, run in runs)]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def records(number: int) -> str:
    """Count records."""
    return "1 record" if number == 1 else f"{number} records"


def returned(number: int) -> str:
    """Say what becomes of records without an outcome."""
    return f"{records(number)} returned, to be redelivered" if number else "nothing returned"
