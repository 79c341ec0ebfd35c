"""What commits of transactions say: never less than what is committed, and nothing that is taken back."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.lanes.epoch import Epoch
from ehkafka.progress.ledger import CommitLedger, Position
from ehkafka.progress.metadata import encode
from ehkafka.progress.pacing import commit_pacing
from ehkafka.progress.ranges import Known
from ehkafka.progress.saving import Sample
from ehkafka.records import TopicPartition
from ehkafka.settings import Settings
from ehkafka.transactions.saving import TransactionSaver, ranges_above

PARTITION = TopicPartition("in", 0)
# Each step ends some offsets, and moves on to some share of what is done.
STEPS = st.lists(st.tuples(st.sets(st.integers(0, 300), max_size=40), st.booleans()), max_size=12)


class Bench:
    """One epoch, and what the group has of it."""

    def __init__(self, bytes_max: int) -> None:
        self.epoch = Epoch(PARTITION, 1, {})
        self.committed: Position | None = None
        self.saver = TransactionSaver(bytes_max, None, lambda: 0.0, lambda _partition: self.committed)
        self.done: set[int] = set()

    def position(self, *ended: int) -> Position:
        """Return what would be committed once these offsets have ended, too."""
        self.done.update(ended)
        next_offset = next(offset for offset in range(1_000) if offset not in self.done)
        sample = Sample(self.epoch, next_offset, None, None, None, list(ended), None)
        return self.saver.position(sample)

    def finished(self) -> set[int]:
        """Return the offsets that the group has as finished."""
        if self.committed is None:
            return set()
        ranges = ranges_above(self.committed, 0)
        above = {offset for start, end in ranges for offset in range(start, end)}
        return above | set(range(self.committed.next_offset))


@given(STEPS, st.integers(64, 140))
def test_what_is_committed_once_stays_so_however_little_fits(steps: Any, bytes_max: int) -> None:
    """Whatever is aborted in between, and all that is said is finished."""
    bench = Bench(bytes_max)
    for ended, is_committed in steps:
        before = bench.finished()
        position = bench.position(*ended)
        if is_committed:
            bench.committed = position
        assert before <= bench.finished() <= bench.done


def first_and_next(bytes_max: int) -> tuple[set[int], set[int]]:
    """Commit what is far above, then what lies below it; return what either commit says."""
    bench = Bench(bytes_max)
    dice = random.Random(1)
    bench.committed = bench.position(*dice.sample(range(400, 500), 50))
    first = bench.finished()
    bench.committed = bench.position(*dice.sample(range(1, 400), 200))
    return first, bench.finished()


def test_the_lowest_that_end_later_do_not_push_out_what_was_said() -> None:
    """They go into what room is left."""
    first, then = first_and_next(70)
    assert first
    assert first <= then
    assert len(then) > len(first)


def test_nothing_above_a_refused_output_is_known_but_what_is_committed() -> None:
    """It may have been in a transaction that was aborted for it."""
    bench = Bench(1_000)
    bench.committed = bench.position(8, 9)
    bench.position(4, 6, 12)
    bench.saver._bound_by(bench.epoch, 5)
    assert bench.saver._known[PARTITION, 1] == Known(((4, 5), (8, 10)))


def test_what_is_refuted_is_said_no_more() -> None:
    """Other records are there by now."""
    bench = Bench(1_000)
    bench.committed = bench.position(*range(8, 12))
    bench.done = set()
    bench.epoch.received.is_refuted = True
    position = bench.position(0)
    assert ranges_above(position, 0) == ()
    bench.committed = position
    assert ranges_above(bench.position(20), 0) == ((20, 21),)


def test_a_text_that_the_broker_refuses_is_not_left_out() -> None:
    """A commit without it would say less; a shorter one comes with the next position."""
    pacing = commit_pacing(Settings(group="g", start="earliest"), is_event_hubs=False)
    ledger = CommitLedger(pacing, unsays_nothing=True)
    ledger.assigned(PARTITION, 1, None)
    text = encode(0, Position(1, 0).facts, ((5, 9),), None, 1_000).text
    ledger.refuse_metadata({PARTITION: Position(1, 0, None, text)})
    assert ledger.dirty({PARTITION: Position(1, 0, None, text)}) == {}
    assert ledger.dirty({PARTITION: Position(1, 0)}) == {PARTITION: Position(1, 0)}


def test_a_short_text_is_not_refused_along_with_a_long_one() -> None:
    """A transaction's error names no partition; and what was refused is made anew though nothing is new."""
    pacing = commit_pacing(Settings(group="g", start="earliest"), is_event_hubs=False)
    ledger, other = CommitLedger(pacing, unsays_nothing=True), TopicPartition("in", 1)
    short, long = (encode(0, Position(1, 0).facts, ((5, end),), None, 1_000).text for end in (6, 6_000_000))
    assert short is not None
    assert long is not None
    assert len(short) < len(long)
    positions = {PARTITION: Position(1, 0, None, short), other: Position(1, 0, None, long)}
    for partition in positions:
        ledger.assigned(partition, 1, None)
    ledger.refuse_metadata(positions)
    assert list(ledger.dirty(positions)) == [PARTITION]
    bench = Bench(1_000)
    first = bench.position(*range(5, 300, 7))
    bench.saver.refused(len(first.metadata or ""))
    assert len(bench.position().metadata or "") < len(first.metadata or "")
