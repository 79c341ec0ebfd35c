"""A partition that its topic has got since the group began: it begins with its log, whatever `start` says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.positions.finder import COPIES_MAX, Lookups, PositionFinder
from ehkafka.positions.without_commit import KnownStarts
from ehkafka.progress.metadata import LogFacts, encode, moved
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_START, MOMENT, LOG_END = 5, 50, 100
FIRST_4 = encode(20, LogFacts(4), (), None, 1_023).text


class Broker:
    """Stands in for the consumer: logs from 5 to 100, and commits as they are given, by partition."""

    def __init__(self, **commits: tuple[int, str | None]) -> None:
        self.commits = {TopicPartition("t", int(name[1:])): commit for name, commit in commits.items()}
        self.asked: list[list[int]] = []

    def committed(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return the group's commits."""
        self.asked.append([one.partition for one in asked])
        found = [self.commits.get(TopicPartition(one.topic, one.partition), (-1001, None)) for one in asked]
        return [
            KafkaPartition(one.topic, one.partition, offset, **({"metadata": text} if text else {}))
            for one, (offset, text) in zip(asked, found, strict=True)
        ]

    def offsets_for_times(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return the log's bounds, and one offset for every moment."""
        ends = {OFFSET_BEGINNING: LOG_START, OFFSET_END: LOG_END}
        return [KafkaPartition(one.topic, one.partition, ends.get(one.offset, MOMENT)) for one in asked]


def finder(start: Any = "latest", partitions: int = 8, lookups: Lookups | None = None) -> PositionFinder:
    """Return one of a run that found so many partitions as it began."""
    found = PositionFinder(lambda _topic: start, emit=lambda _: None, count=lambda *_: None, lookups=lookups)
    found.first_counts.begin({"t": partitions})
    return found


def begins(positions: PositionFinder, broker: Any, *numbers: int) -> dict[int, Any]:
    """Return where these partitions begin."""
    found = positions.find(broker, [TopicPartition("t", number) for number in numbers])
    return {begin.partition.partition: begin for begin in found.known}


@pytest.mark.parametrize(
    ("start", "offset"),
    [("latest", LOG_END), (7, 7), (datetime(2026, 1, 1, tzinfo=UTC), MOMENT), (lambda _t, _p: 9, 9)],
)
def test_a_partition_above_the_first_count_begins_with_its_log(start: Any, offset: int) -> None:
    """The others' commits say that there were four: 3 begins at `start`, 4 and 7 with their logs."""
    found = begins(finder(start), Broker(p0=(20, FIRST_4)), 3, 4, 7)
    assert {number: (one.offset, one.is_new) for number, one in found.items()} == {
        3: (offset, False),
        4: (LOG_START, True),
        7: (LOG_START, True),
    }


LATER = encode(30, LogFacts(8), (), None, 1_023).text
FIRST = encode(100, LogFacts(8), (), None, 1_023).text


@pytest.mark.parametrize(
    ("partitions", "commits", "numbers", "offset"),
    [
        # One member began later and says eight; a commit without a word, or of others, says nothing.
        (
            8,
            {"p0": (20, "theirs"), "p1": (30, LATER), "p2": (20, moved(20, LogFacts(4))), "p3": (30, LATER)},
            [5],
            LOG_START,
        ),
        # A second member joins a moment after the first one, whose commits say as many as there are.
        (8, {"p0": (100, FIRST), "p1": (100, FIRST)}, [4, 5, 6, 7], LOG_END),
        # All others have been committed for long; nothing of it was handled, and nothing is now.
        (4, {f"p{number}": (20, FIRST_4) for number in (0, 1, 3)}, [2], LOG_END),
        # Without metadata, as plain clients commit, only this run knows what was not there as it began.
        (2, {"p0": (20, None), "p1": (20, None)}, [2], LOG_START),
        (3, {"p0": (20, None), "p1": (20, None)}, [2], LOG_END),
    ],
    ids=["the lowest counts", "a new group", "a first commit failed", "seen to be added", "there before"],
)
def test_who_is_new_by_what_commits_and_this_run_know(
    partitions: int, commits: dict[str, Any], numbers: list[int], offset: int
) -> None:
    """The others begin where `start` is, at the log's end."""
    found = begins(finder(partitions=partitions), Broker(**commits), *numbers)
    assert {one.offset for one in found.values()} == {offset}


def test_the_count_goes_on_in_every_commit() -> None:
    """Its own unchanged; where it says none, the lowest that is known, and at first what the run found."""
    broker = Broker(p0=(20, FIRST_4), p1=(20, None))
    found = begins(finder(), broker, 0, 1, 6)
    assert [found[number].facts.first_partitions for number in (0, 1, 6)] == [4, 4, 4]
    named = encode(30, LogFacts(8, reset="june"), (), None, 1_023).text
    kept = begins(finder(), Broker(p0=(20, FIRST_4), p1=(30, named)), 0, 1)
    assert (kept[1].facts, kept[0].facts) == (LogFacts(8, reset="june"), LogFacts(4))
    assert begins(finder(), Broker(), 0)[0].facts == LogFacts(8)


def test_other_commits_are_read_only_until_the_count_is_known() -> None:
    """One more request for a member that was given only new partitions, and none the next time."""
    broker, positions = Broker(p0=(20, FIRST_4)), finder()
    begins(positions, broker, 6, 7)
    assert broker.asked == [[6, 7], [0, 1, 2, 3, 4, 5], []][:2]
    begins(positions, broker, 7)
    assert broker.asked[2:] == [[7]]
    begins(finder(), asked_all := Broker(), *range(8))
    assert asked_all.asked == [list(range(8))]


def test_copies_say_it_where_the_commits_are_gone() -> None:
    """The group's commits have expired: 6 was added once, and has no copy; a few of the others are asked."""
    asked: list[list[int]] = []
    mirrored_at: dict[TopicPartition, int] = {}

    def copies(partitions: Sequence[TopicPartition], others: Sequence[TopicPartition]) -> KnownStarts:
        asked.extend([one.partition for one in some] for some in (partitions, others))
        known = [one for one in (*partitions, *others) if one.partition < 4]
        return KnownStarts(mirrored_at, {one: LogFacts(4, reset="june") for one in known})

    lookups = Lookups(without_commit=copies)
    positions = finder(partitions=32, lookups=lookups)
    assert begins(positions, Broker(), 30)[30].offset == LOG_START
    assert asked == [[30], list(range(COPIES_MAX))]
    mirrored_at[TopicPartition("t", 1)] = 60
    mirrored = begins(positions, Broker(), 1)[1]
    assert (mirrored.offset, mirrored.is_new, mirrored.facts) == (60, False, LogFacts(4, reset="june"))
