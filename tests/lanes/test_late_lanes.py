"""Lanes made as records are taken: the same promises and results as with lanes made as records come."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from ehkafka.lanes.decision import HoldHead, RetryHead, SkipHead
from ehkafka.lanes.late import TAKE_RECORDS_MAX
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.decision import Decision


def late_bench(records: str) -> tuple[LaneBench, Assignment]:
    """Return a bench with late lanes that has received records."""
    bench = LaneBench(late_lanes=True)
    assignment = bench.assign()
    bench.receive(assignment, records)
    return bench, assignment


def test_a_record_has_no_lane_before_it_is_taken() -> None:
    """It counts as received and unfinished all the same, and holds the watermark."""
    bench, assignment = late_bench("a0 b1 a2 c3")
    assert (len(assignment.lanes), assignment.backlog_records, assignment.watermark()) == (0, 4, 0)
    first, second = bench.begin(2)
    assert (first.key, second.key, list(assignment.lanes)) == (b"a", b"b", [b"a", b"b"])
    assert bench.run_head(second) is False
    bench.settle(second)
    assert list(assignment.lanes) == [b"a"]
    assert assignment.watermark() == 0
    bench.finish(first)
    assert (assignment.watermark(), assignment.backlog_records) == (2, 2)


def test_a_record_whose_key_has_a_lane_goes_behind_it() -> None:
    """Nobody else may run it, however many workers are free."""
    bench, assignment = late_bench("a0 a1 b2 a3")
    first, second = bench.begin(2)
    assert [len(first), len(second)] == [2, 1]
    assert bench.begin(4) == []
    assert [message.offset() for message in assignment.lanes[b"a"].messages()] == [0, 1, 3]
    bench.finish(first)
    bench.finish(second)
    assert bench.is_empty()
    assert bench.started == ["a0", "a1", "a3", "b2"]


def test_partitions_are_taken_from_in_turn() -> None:
    """One with a long backlog does not keep the others waiting."""
    bench = LaneBench(late_lanes=True)
    bench.receive(bench.assign(0), "a0 b1 c2 d3")
    bench.receive(bench.assign(1), "a0 b1")
    taken = [bench.begin()[0] for _ in range(6)]
    assert [lane.assignment.partition.partition for lane in taken] == [0, 1, 0, 1, 0, 0]


def test_one_take_looks_at_a_bounded_number_of_records() -> None:
    """Records of one key would keep the lock for as long as there are any."""
    bench, assignment = late_bench(" ".join(f"a{number}" for number in range(3 * TAKE_RECORDS_MAX)))
    (lane,) = bench.begin(2)
    assert len(lane) < 2 * TAKE_RECORDS_MAX
    while bench.begin(2) or assignment.chunks:
        pass
    assert len(lane) == 3 * TAKE_RECORDS_MAX


def test_a_paused_key_is_taken_out_of_chunks_and_the_others_go_on() -> None:
    """All records get lanes: the paused key's wait."""
    bench, assignment = late_bench("a0 b1 a2")
    bench.dispatcher.holds.pause_key(b"a")
    assert not assignment.chunks
    bench.work()
    assert bench.started == ["b1"]
    assert assignment.parked_records == 2
    bench.dispatcher.holds.resume_key(b"a")
    bench.work()
    assert bench.is_empty()


def test_a_drain_returns_what_was_not_taken() -> None:
    """What was taken counts as started, and ends."""
    bench, assignment = late_bench("a0 b1 c2 d3")
    first, second = bench.begin(2)
    bench.dispatcher.drain(assignment, below_started=True)
    assert (assignment.drain_limit, assignment.returned_records) == (1, 2)
    bench.finish(first)
    bench.finish(second)
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 2


def test_a_lane_that_was_taken_and_not_begun_is_handed_in_as_it_is() -> None:
    """It becomes ready in its old order, before anything else is taken."""
    bench, _ = late_bench("a0 b1 c2")
    taken = bench.begin(2)
    bench.settle(*taken)
    assert [lane.key for lane in bench.begin(3)] == [b"a", b"b", b"c"]


class Twin:
    """One of two benches that are given the same, with what became of each record."""

    def __init__(self, seed: int, *, late_lanes: bool) -> None:
        self.bench = LaneBench(late_lanes=late_lanes)
        self.workers = random.Random(f"workers {seed} {late_lanes}")
        self.seed = seed
        self.started: defaultdict[tuple[int, bytes], list[tuple[int, int]]] = defaultdict(list)

    def run(self) -> None:
        """Let a few workers run, in an order of their own, all that may run."""
        bench = self.bench
        held = bench.begin(3)
        while held:
            lane = held.pop(self.workers.randrange(len(held)))
            while lane.may_run_head():
                assert lane.head is not None
                place = lane.assignment.partition.partition, lane.key
                self.started[place].append((lane.head.offset(), lane.attempts))  # type: ignore[index]
                decision = self._decide(lane.assignment.epoch, lane.head.offset(), lane.attempts)
                if decision is not None:
                    lane.decision = decision
                    break
                if not lane.advance():
                    break
            bench.settle(lane)
            held += bench.begin(3 - len(held))

    def _decide(self, epoch: int, offset: int, attempts: int) -> Decision | None:
        drawn = random.Random(f"{self.seed} {epoch} {offset} {attempts}").random()
        if drawn < 0.05:
            return RetryHead(1.0, "later")
        if drawn < 0.07:
            return SkipHead("no")
        return HoldHead("poison") if drawn < 0.09 else None

    def outline(self) -> object:
        """Return all that must be equal whenever nothing may run."""
        dispatcher = self.bench.dispatcher
        counts = ("finished", "skipped", "returned", "backlog", "parked", "received")
        extents = [one.extent() for one in dispatcher.assignments.values()]
        return (
            dict(self.started),
            [getattr(dispatcher, f"{name}_records") for name in counts],
            (dispatcher.backlog_bytes, dispatcher.parked_bytes, dispatcher.handled_bytes),
            [one.watermark() for one in dispatcher.assignments.values()],
            [extent.finished() for extent in extents if extent is not None],
            sorted((lane.assignment.epoch, lane.key) for lane in dispatcher.holds.held),  # type: ignore[type-var]
        )


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_late_lanes_and_early_ones_come_to_the_same(first: int) -> None:
    """Random records, failures, retries, pauses, skips, drains and ends: record by record, key by key."""
    for seed in range(first, first + 50):
        twins = [Twin(seed, late_lanes=late) for late in (False, True)]
        script = random.Random(seed)
        offsets: dict[int, int] = {}
        for _ in range(30):
            _do_something(twins, script, offsets)
            for twin in twins:
                twin.run()
            assert twins[0].outline() == twins[1].outline(), f"seed {seed}"


def _do_something(twins: list[Twin], script: random.Random, offsets: dict[int, int]) -> None:
    """Tell both benches the same."""
    partition, key = script.randrange(2), script.choice([b"a", b"b", b"c"])
    what = script.choices(
        ["receive", "time", "pause", "resume", "retry", "skip", "end"], [8, 3, 1, 2, 1, 1, 1]
    )[0]
    if what == "receive" and partition in offsets:
        first = offsets[partition]
        offsets[partition] = first + script.randint(1, 12)
        records = " ".join(f"{script.choice('abcd')}{offset}" for offset in range(first, offsets[partition]))
    below_started = script.random() < 0.5
    for twin in twins:
        dispatcher = twin.bench.dispatcher
        owned = {one.partition.partition: one for one in dispatcher.assignments.values()}
        if what == "receive" and partition in offsets:
            if partition not in owned:
                owned[partition] = twin.bench.assign(partition)
            twin.bench.receive(owned[partition], records)
        elif what == "time":
            twin.bench.now_s += 1.5
            dispatcher.holds.unpark_due(twin.bench.now_s)
        elif what in ("pause", "resume", "retry", "skip"):
            getattr(dispatcher.holds, f"{what}_key")(key)
        elif what == "end" and partition in owned:
            dispatcher.drain(owned[partition], below_started=below_started)
            twin.run()
            dispatcher.end(owned[partition])
    offsets.setdefault(partition, 0)
