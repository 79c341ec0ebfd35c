"""What a commit says: within its limit, reported once, and never at the price of a busy poll thread."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest

from ehkafka.events import ProgressTruncated
from ehkafka.progress.metadata import CommitMetadata, LogFacts, decode, facts_of
from ehkafka.progress.saving import ProgressSaver, metadata_bytes_max
from tests.kit.inbox_bench import InboxBench, at_once


def half_finished(count: int) -> tuple[InboxBench, Any]:
    """Return an epoch with so many records, of which a random half is finished and the first is not."""
    chance = random.Random(5)
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, " ".join(["a0", *(f"{chance.choice('ab')}{n}" for n in range(1, count))]))
    bench.finish(bench.call("b"), count)
    return bench, epoch


def position(saver: ProgressSaver, epoch: Any) -> Any:
    """Return what would be committed at a tick."""
    looks = saver.begin_tick()
    sample = saver.sample(epoch, fully=looks)
    assert sample is not None
    found = saver.position(sample)
    saver.end_tick(looked=looks)
    return found


@pytest.mark.parametrize(("is_event_hubs", "bytes_max"), [(True, 1023), (False, 4095)])
def test_the_limit_is_the_services(is_event_hubs: bool, bytes_max: int) -> None:
    """Just below 1024 on Event Hubs and 4096 elsewhere."""
    assert metadata_bytes_max(is_event_hubs=is_event_hubs) == bytes_max


def test_what_is_dropped_is_reported_once_until_it_fits_again() -> None:
    """One event for a phase, with what fits and what does not; a new one after it fitted."""
    reported: list[Any] = []
    saver = ProgressSaver(64, reported.append)
    bench, epoch = half_finished(400)
    first = position(saver, epoch)
    assert len(first.metadata) <= 64
    assert position(saver, epoch).metadata == first.metadata
    (event,) = reported
    assert isinstance(event, ProgressTruncated)
    decoded = decode(first.metadata, 0)
    assert isinstance(decoded, CommitMetadata)
    assert not decoded.ranges.is_complete
    assert event.kept_offsets == sum(end - start for start, end in decoded.ranges.finished)
    assert event.kept_offsets + event.dropped_offsets == sum(e - s for s, e in first.finished)
    saver.bytes_max, epoch.is_extent_due = 4000, True
    assert position(saver, epoch).finished == first.finished
    saver.bytes_max, epoch.is_extent_due = 64, True
    position(saver, epoch)
    assert len(reported) == 2
    assert bench.inboxes.tally.unfinished_records > 0


def test_with_zero_nothing_is_looked_for_unless_a_mirror_does() -> None:
    """Off costs nothing; a mirror gets the ranges all the same."""
    saver = ProgressSaver(0)
    _, epoch = half_finished(20)
    assert position(saver, epoch).finished == ()
    saver.is_mirrored = True
    found = position(saver, epoch)
    assert found.finished
    assert found.metadata is None


def test_looking_takes_a_fiftieth_of_the_time() -> None:
    """Between two looks it is said what has ended since; where nothing has, no commit is made of it."""
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += 0.5  # so each look takes half a second
        return now_s

    saver = ProgressSaver(4000, clock=clock)
    bench, epoch = half_finished(20)
    detailed = position(saver, epoch)
    assert detailed.finished
    bench.receive(epoch, "c20 d21")
    bench.finish(bench.call("d"))
    assert saver.detail_at_s == float("inf")
    kept = position(saver, epoch)
    assert kept.finished == (*detailed.finished, (21, 22))
    assert position(saver, epoch) is kept
    assert now_s < saver.detail_at_s <= now_s + 25.0
    assert saver.early_at_s > now_s
    now_s = saver.detail_at_s
    assert position(saver, epoch).finished[-1] == (21, 22)
    bench.finish(bench.call("a"), 20)
    last = position(saver, epoch)
    assert (last.finished, facts_of(20, last.metadata)) == (((21, 22),), LogFacts(witness=(19, 1019)))


def test_a_refusal_lowers_the_limit_until_nothing_is_said() -> None:
    """First to what Event Hubs documents, then by half, then to nothing; never up."""
    saver = ProgressSaver(4095)
    steps = []
    while saver.bytes_max:
        saver.refused(saver.bytes_max)
        steps.append(saver.bytes_max)
    assert steps == [1023, 511, 255, 127, 0]
    saver.refused(4000)
    assert saver.bytes_max == 0


def test_the_anchor_is_the_latest_record_below_whose_timestamp_is_known() -> None:
    """At a batch's end it is the record just before; within a batch the one at the end of an earlier."""
    bench = InboxBench()
    epoch = bench.assign()
    saver = ProgressSaver(0)
    bench.receive(epoch, "a0 b1")
    bench.receive(epoch, "c2 d3")
    for lane in at_once(bench, 3):
        bench.finish(lane)
    found = position(saver, epoch)
    assert found.next_offset == 3
    assert found.facts.witness[0] == 1
    bench.finish(bench.call())
    last = position(saver, epoch)
    assert (last.next_offset, last.facts.witness[0]) == (4, 3)


def test_facts_are_carried_into_every_commit_until_the_epoch_ends() -> None:
    """What the group's commit said goes on, with or without ranges; the witness once it is a newer one."""
    saver = ProgressSaver(1023)
    bench = InboxBench()
    epoch = bench.assign()
    facts = LogFacts(8, bytes(range(16)), (1, 5), "june")
    saver.carry(epoch.partition, facts)
    bench.receive(epoch, "a2 b3 c4")
    bench.finish(bench.call("c"))
    first = position(saver, epoch)
    assert (first.next_offset, first.finished) == (2, ((4, 5),))
    assert (first.facts, facts_of(2, first.metadata)) == (facts, facts)
    for key in "ab":
        bench.finish(bench.call(key))
    last = position(saver, epoch)
    later = facts._replace(witness=(4, last.facts.witness[1]))
    assert (last.facts, facts_of(5, last.metadata)) == (later, later)
    saver.forget(epoch.partition, epoch.number)
    assert saver.carried(epoch.partition) == LogFacts()


def test_an_epoch_in_which_nothing_happens_is_not_looked_at_again() -> None:
    """Until it receives something, its commits carry other facts, or another epoch is at its place."""
    bench, saver = InboxBench(), ProgressSaver(1000)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.work()
    place, looks = epoch.partition, list[Any]()
    inspect = saver.inspect
    saver.inspect = lambda epoch, **how: looks.append(epoch) or inspect(epoch, **how)  # type: ignore[method-assign,func-returns-value]

    def next_offset(one: Any) -> int:
        return saver.positions([(nullcontext, [one])])[place].next_offset

    assert [next_offset(epoch), next_offset(epoch), len(looks), saver.is_at_rest] == [2, 2, 1, True]
    bench.receive(epoch, "a2")
    assert [next_offset(epoch), next_offset(epoch), len(looks), saver.is_at_rest] == [2, 2, 3, False]
    bench.work()
    assert [next_offset(epoch), next_offset(epoch), len(looks), saver.is_at_rest] == [3, 3, 4, True]
    saver.carry(place, LogFacts(first_partitions=7))
    assert (saver.is_at_rest, next_offset(epoch), len(looks)) == (False, 3, 5)
    saver.begin(epoch, None)
    assert not saver.is_at_rest
    bench.inboxes.ending.end([epoch])
    anew = bench.assign()
    anew.received.next_offset = 3
    assert (next_offset(anew), len(looks)) == (3, 6)
    saver.lowest = lambda: {anew: 1}  # outputs may wait though nothing of their epoch moves
    assert (next_offset(anew), saver.is_at_rest) == (1, False)
