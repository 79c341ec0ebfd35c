"""The order in which letters come home, and below which offsets all is done."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka import Endpoint
from ehkafka.checks import Target
from ehkafka.records import Record, TopicPartition
from ehkafka.redrive.order import AHEAD_RECORDS_MAX, MergedLetters
from ehkafka.redrive.redrive import Redrive
from ehkafka.redrive.run import RedriveRun
from tests.kit.simulated.message import SimulatedMessage

HOME = TopicPartition("t", 0)


class Written(SimulatedMessage):
    """A record with the time of its writing in its value."""

    def timestamp(self) -> tuple[int, int]:
        """Return that time."""
        return 1, int(self.value() or 0)


def letter(partition: int, offset: int, at_ms: int) -> Record:
    """Return a letter."""
    return Record(Written("dead", partition, offset, value=b"%d" % at_ms))


def taken(merged: MergedLetters) -> list[tuple[int, int]]:
    """Return what comes out now."""
    return [(record.partition(), record.offset()) for record, _ in merged.take()]


def test_letters_come_in_the_order_of_their_writing() -> None:
    """One that nothing can precede any more, and no other."""
    merged = MergedLetters([0, 1])
    merged.put(letter(0, 0, 10), None)
    merged.put(letter(0, 1, 30), None)
    assert taken(merged) == []
    merged.put(letter(1, 0, 20), None)
    assert taken(merged) == [(0, 0), (1, 0)]
    merged.finish(1)
    assert taken(merged) == [(0, 1)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=40))
def test_a_partitions_order_is_kept_whatever_its_times_are(written: list[tuple[int, int]]) -> None:
    """Clocks of two members may differ; each letter comes once."""
    merged = MergedLetters(range(3))
    offsets = [0, 0, 0]
    out: list[tuple[int, int]] = []
    for partition, at_ms in written:
        merged.put(letter(partition, offsets[partition], at_ms), None)
        offsets[partition] += 1
        out += taken(merged)
    for partition in range(3):
        merged.finish(partition)
    out += taken(merged)
    for partition in range(3):
        assert [o for p, o in out if p == partition] == list(range(offsets[partition]))


def test_a_partition_that_is_far_ahead_is_reported() -> None:
    """So that it is read on later: what waits is bounded."""
    merged = MergedLetters([0, 1])
    for offset in range(AHEAD_RECORDS_MAX):
        assert not merged.ahead()
        merged.put(letter(0, offset, offset), None)
    assert merged.ahead() == {0}
    merged.finish(1)
    assert len(taken(merged)) == AHEAD_RECORDS_MAX
    assert not merged.ahead()


@given(st.permutations(range(12)), st.integers(0, 12))
def test_a_commit_is_exactly_below_the_lowest_letter_on_its_way(order: list[int], answered: int) -> None:
    """For every order of the answers, at every moment; over holes of the log, and letters that stay."""
    commits: list[Any] = []
    consumer: Any = SimpleNamespace(commit=lambda *, offsets, asynchronous: commits.extend(offsets))
    redrive = Redrive(target=Target(endpoint=Endpoint.kafka("127.0.0.1:1")), topic="dead")
    run = RedriveRun(redrive, consumer, lambda _count: None)
    open_ones = [run._way.send(letter(0, 2 * number, 0), [], HOME) for number in range(12)]
    run._open, run._next, run._committed = {0: deque(open_ones), 1: deque()}, {0: 30, 1: 5}, {0: 0, 1: 5}
    for number in order[:answered]:
        open_ones[number].acknowledged()
    run._commit()
    lowest = min((2 * number for number in set(range(12)) - set(order[:answered])), default=30)
    assert [(one.partition, one.offset) for one in commits] == ([(0, lowest)] if lowest else [])
    assert run._count.to == ({HOME: answered} if answered else {})
    run._commit()
    assert len(commits) == bool(lowest)
