"""Commits between two looks, and before the first one: nothing that was said to be finished is taken back."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest

from ehkafka.lanes.epoch import ENDED_LATELY_MAX
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import CommitMetadata, LogFacts, decode
from ehkafka.progress.ranges import Known
from ehkafka.progress.saving import ProgressSaver
from tests.kit.inbox_bench import InboxBench


class Clock:
    """Stands still, but for what each look is to take."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now_s


def tick(saver: ProgressSaver, epoch: Any, *, looks: bool | None = None, took_s: float = 0.0) -> Any:
    """Return what would be committed at a tick; `looks` overrides whether there is time to look."""
    has_time = saver.begin_tick()
    looked = has_time if looks is None else looks
    sample = saver.sample(epoch, fully=looked)
    assert sample is not None
    position = saver.position(sample)
    saver._clock.now_s += took_s  # type: ignore[attr-defined]
    saver.end_tick(looked=looked)
    return position


def ranges_in(position: Position) -> Any:
    """Return the ranges that a commit's metadata says are finished."""
    decoded = decode(position.metadata or "", position.next_offset)
    return decoded.ranges.finished if isinstance(decoded, CommitMetadata) else decoded


def restored(*offsets: int) -> tuple[InboxBench, Any]:
    """Return an epoch that begins at 0, whose commit said that these are finished."""
    bench = InboxBench()
    epoch = bench.assign(finished_before=offsets or None)
    epoch.received.next_offset = 0
    return bench, epoch


def begun(epoch: Any, bytes_max: int = 4000) -> ProgressSaver:
    """Return a saver that knows of the beginning of an epoch."""
    saver = ProgressSaver(bytes_max, clock=Clock())
    saver.begin(epoch, None)
    return saver


def test_the_first_commit_of_an_assignment_says_what_was_restored() -> None:
    """Without a look: it is said until it is received, and then by looks."""
    bench, epoch = restored(2, 3, 6)
    saver = begun(epoch)
    bench.receive(epoch, "a0 b1")
    assert ranges_in(tick(saver, epoch, looks=False)) == ((2, 4), (6, 7))
    bench.receive(epoch, "a2 b3 c4")
    for _ in range(3):
        assert ranges_in(tick(saver, epoch, looks=False)) == ((2, 4), (6, 7))
    for key in "ab":
        bench.finish(bench.call(key))
    # All below 4 is done: the position has moved, and what lies above it is said again.
    found = tick(saver, epoch, looks=False)
    assert (found.next_offset, ranges_in(found)) == (4, ((6, 7),))
    assert ranges_in(tick(saver, epoch, looks=True)) == ((6, 7),)


def test_a_restored_commit_is_not_sent_back_before_anything_has_changed() -> None:
    """What the group has is what would be sent, so there is nothing to send."""
    _, epoch = restored(2, 3)
    saver = ProgressSaver(4000, clock=Clock())
    stored = Position(1, 0, None, "text", ((2, 4),), None)
    saver.begin(epoch, stored)
    assert tick(saver, epoch, looks=False) is stored
    saver.carry(epoch.partition, LogFacts(first_partitions=4))
    assert ranges_in(tick(saver, epoch, looks=False)) == ((2, 4),)


def test_a_commit_whose_position_moved_between_two_looks_keeps_what_lies_above() -> None:
    """With looks that take half a second each, ten seconds of commits had no metadata at all."""
    bench, epoch = restored()
    saver = begun(epoch)
    bench.receive(epoch, "a0 b1 c2 d3 e4 f5 g6 h7")
    for key in "cdfh":
        bench.finish(bench.call(key))
    tick(saver, epoch)
    assert ranges_in(tick(saver, epoch, took_s=0.5)) == ((2, 4), (5, 6), (7, 8))
    bench.finish(bench.call("a"))
    assert not saver.begin_tick()
    assert ranges_in(tick(saver, epoch)) == ((2, 4), (5, 6), (7, 8))
    bench.finish(bench.call("b"))
    bench.finish(bench.call("e"))
    moved = tick(saver, epoch)
    assert (moved.next_offset, ranges_in(moved)) == (6, ((7, 8),))
    decoded = decode(moved.metadata, 6)
    assert isinstance(decoded, CommitMetadata)
    assert decoded.ranges.is_complete


@pytest.mark.parametrize("seed", range(40))
def test_no_commit_takes_back_what_an_earlier_one_said(seed: int) -> None:
    """Whatever finishes when, and whenever there is time for a look."""
    chance = random.Random(seed)
    bench, epoch = restored(*chance.sample(range(5, 60), 20))
    saver = begun(epoch)
    decoded: set[int] = set()
    offset = 0
    for _ in range(60):
        count = chance.randrange(3)
        if count and offset < 80:
            bench.receive(epoch, " ".join(f"{chance.choice('abcdef')}{offset + n}" for n in range(count)))
            offset += count
        if any(inbox.q for inbox in bench.inboxes.inboxes) and chance.random() < 0.7:
            bench.finish(bench.call(), chance.randrange(1, 3))
        position = tick(saver, epoch, looks=chance.random() < 0.5)
        now = {one for start, end in position.finished for one in range(start, end)}
        assert {one for one in decoded if one >= position.next_offset} <= now
        unfinished = {entry[0].offset() for entry in epoch.unfinished()}
        assert not now & unfinished
        decoded |= now


@pytest.mark.parametrize("seed", range(20))
def test_offsets_that_end_are_joined_with_ranges(seed: int) -> None:
    """Whatever the order, with what is known twice, the ranges are those of all offsets."""
    chance = random.Random(seed)
    known, every = Known(), set()
    for _ in range(20):
        ended = [chance.randrange(60) for _ in range(chance.randrange(6))]
        every.update(ended)
        known = known.with_ended(ended, 7)
        assert {one for start, end in known.finished for one in range(start, end)} == every
        starts_and_ends = [edge for each in known.finished for edge in each]
        assert starts_and_ends == sorted(set(starts_and_ends))


def test_what_was_restored_is_dropped_when_the_log_has_other_records_there() -> None:
    """A record of a newer leader epoch is another one; a commit must never say that it is finished."""
    bench, epoch = restored(2, 3, 6)
    epoch.received.finished_before.leader_epoch = 1
    saver = begun(epoch)
    bench.receive(epoch, "a0 b1", leader_epoch=1)
    assert ranges_in(tick(saver, epoch, looks=False)) == ((2, 4), (6, 7))
    bench.receive(epoch, "c2 d3 e4", leader_epoch=2)
    bench.finish(bench.call("e"))
    assert tick(saver, epoch, looks=False).finished == ()
    for looks in (True, False):
        assert ranges_in(tick(saver, epoch, looks=looks)) == ((4, 5),)


def test_a_backlog_is_looked_through_once() -> None:
    """From then on all that ends is known, until too many end at once."""
    bench, epoch = restored()
    saver = begun(epoch)
    bench.receive(epoch, "a0 b1 c2 d3")
    tick(saver, epoch)
    for key, decoded in (("b", ((1, 2),)), ("d", ((1, 2), (3, 4)))):
        bench.finish(bench.call(key))
        sample = saver.sample(epoch)
        assert sample is not None
        assert sample.extent is None or key == "b"
        assert saver.position(sample).finished == decoded
    many = 4 + ENDED_LATELY_MAX
    bench.receive(epoch, " ".join(f"e{offset}" for offset in range(4, many)))
    bench.finish(bench.call("e"), many)
    sample = saver.sample(epoch)
    assert sample is not None
    assert sample.extent is not None


def test_the_last_look_finds_offsets_without_a_record_between_results() -> None:
    """As the markers of transactions have: results name only records, and no text needs a range for each."""
    bench, epoch = restored()
    saver = begun(epoch)
    bench.receive(epoch, "a0 b1")
    bench.finish(bench.call("b"))
    assert ranges_in(tick(saver, epoch, looks=True)) == ((1, 2),)
    bench.receive(epoch, "b3 b5")
    bench.finish(bench.call("b"), 2)
    assert ranges_in(tick(saver, epoch, looks=True)) == ((1, 2), (3, 4), (5, 6))
    epoch.received.skip_to(7, 0.0)
    sample = saver.last_sample(epoch)
    assert sample is not None
    assert ranges_in(saver.position(sample)) == ((1, 7),)
    groups = [(nullcontext, [epoch])]
    assert ranges_in(saver.positions(groups, in_full=True)[epoch.partition]) == ((1, 7),)
