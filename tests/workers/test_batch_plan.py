"""What goes into a batch and when, and what becomes of its lanes: the pure plan, without threads."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.records import Outcome
from ehkafka.workers.batches.plan import BatchLimits, BatchPlan
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.workers.batches.plan import Share


class PlanBench(LaneBench):
    """A lane bench with a batch plan on it."""

    def __init__(self, scope: Any = "partition", **limits: Any) -> None:
        super().__init__(scope)
        limits = {"records_max": 10, "bytes_max": None, "wait_s_max": 1.0, **limits}
        limits.setdefault("records_min", limits["records_max"])
        self.plan = BatchPlan(self.dispatcher, BatchLimits(**limits))

    def wait_s(self) -> float | None:
        """How long the next batch waits now."""
        return self.plan.wait_s(self.now_s)

    def take(self) -> list[Share]:
        """Take a batch now."""
        return self.plan.take(self.now_s)

    def end(
        self, shares: list[Share], ends: Callable[[Any], Outcome | None] = lambda _: Outcome.FINISHED
    ) -> None:
        """End each record as told, up to the first without an outcome in each lane, and hand the lanes in."""
        for share in shares:
            for message in share.messages:
                end = ends(message)
                if end is None:
                    break
                share.ended_records += 1
                share.skipped_records += end is Outcome.SKIPPED
        self.plan.pass_over(shares)
        self.plan.hand_in(shares, self.now_s)

    def run_all(self) -> list[list[int]]:
        """Take and finish batches until nothing is ready; return their offsets."""
        batches = []
        while shares := self.take():
            batches.append(offsets(shares))
            self.end(shares)
        return batches


def offsets(shares: list[Share]) -> list[int]:
    """The offsets of a batch, as the handler gets them."""
    return [message.offset() for share in shares for message in share.messages]


def many(key: str, first: int, count: int) -> str:
    """Records of one key, as the bench writes them."""
    return " ".join(f"{key}{offset}" for offset in range(first, first + count))


# --- when ----------------------------------------------------------------------------------------------


def test_nothing_waits_for_nothing() -> None:
    """Without a ready lane there is no time to wait for."""
    bench = PlanBench()
    assert bench.wait_s() is None
    bench.assign()
    assert bench.wait_s() is None
    assert bench.take() == []


def test_a_batch_waits_until_it_is_full_or_its_first_record_is_old_enough() -> None:
    """The wait counts from when the first record was received, not from when somebody looked."""
    bench = PlanBench(records_max=3, wait_s_max=2.0)
    assignment = bench.assign()
    bench.now_s = 10.0
    bench.receive(assignment, "a0")
    bench.now_s = 11.5
    bench.receive(assignment, "b1")
    assert bench.wait_s() == pytest.approx(0.5)
    bench.now_s = 12.0
    assert bench.wait_s() == 0.0
    bench.now_s = 11.6
    bench.receive(assignment, "a2")
    assert bench.wait_s() == 0.0


def test_min_records_are_enough_to_go() -> None:
    """With records_min=2 a batch does not wait for the ten that it may have."""
    bench = PlanBench(records_min=2)
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    assert bench.wait_s() == 1.0
    bench.receive(assignment, "a1")
    assert bench.wait_s() == 0.0


def test_max_bytes_are_enough_to_go() -> None:
    """Large records make a batch go before they are many."""
    bench = PlanBench(bytes_max=100)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1", value=b"x" * 49)
    assert bench.wait_s() == 1.0
    bench.receive(assignment, "c2", value=b"xx")
    assert bench.wait_s() == 0.0


def test_records_of_running_lanes_are_not_counted_as_there() -> None:
    """What another batch has, and what is behind it, cannot fill this one."""
    bench = PlanBench(records_max=3, unique_keys=True)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 a3 a4 a5")
    bench.take()
    bench.receive(assignment, "d6 a7")
    assert bench.wait_s() == 1.0


@pytest.mark.parametrize("why", ["hurried", "halted"])
def test_a_stop_or_a_revoke_waits_for_no_more(why: str) -> None:
    """Whoever drains gets nothing more to fill a batch with."""
    bench = PlanBench()
    assignment, other = bench.assign(0), bench.assign(1)
    bench.receive(other, "a0 b1")
    assert bench.wait_s() == 1.0
    if why == "hurried":
        bench.plan.is_hurried = True
    else:
        bench.dispatcher.drain(assignment, below_started=True)
    assert bench.wait_s() == 0.0


# --- what ----------------------------------------------------------------------------------------------


def test_a_batch_has_each_key_in_order_and_no_lane_twice() -> None:
    """O1: overlapping batches never share a lane."""
    bench = PlanBench(records_max=4)
    bench.receive(bench.assign(), "a0 b1 a2 c3 b4 a5")
    one = bench.take()
    assert offsets(one) == [0, 2, 1, 3]
    assert bench.take() == []
    bench.end(one)
    assert offsets(bench.take()) == [5, 4]


def test_unique_keys_gives_one_record_of_each() -> None:
    """The followers come in the next batches, in order."""
    bench = PlanBench(unique_keys=True)
    bench.receive(bench.assign(), "a0 a1 b2 a3 b4")
    assert bench.run_all() == [[0, 2], [1, 4], [3]]
    assert bench.is_empty()


def test_max_bytes_bounds_a_batch_and_a_larger_record_goes_alone() -> None:
    """The lanes that found no room keep their places and come first in the next batch."""
    bench = PlanBench(bytes_max=10)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1", value=b"x" * 4)
    bench.receive(assignment, "c2", value=b"x" * 50)
    bench.receive(assignment, "d3 e4 a5", value=b"x" * 4)
    assert bench.run_all() == [[0, 1], [2], [3, 4], [5]]
    assert bench.is_empty()


def test_what_is_left_of_max_bytes_goes_to_those_that_have_more() -> None:
    """Filling up minds the bytes, too."""
    bench = PlanBench(bytes_max=10, records_max=100)
    bench.receive(bench.assign(), f"{many('a', 0, 5)} b5", value=b"x" * 3)
    assert offsets(bench.take()) == [0, 1, 5]


def test_a_hot_key_shares_each_batch_with_the_others() -> None:
    """Every ready key is in the next batch with an equal part; who has more fills what is left."""
    bench = PlanBench(records_max=9)
    bench.receive(bench.assign(), f"{many('h', 0, 100)} a100 b101")
    first = bench.take()
    assert offsets(first) == [0, 1, 2, 3, 4, 5, 6, 100, 101]


def test_more_keys_than_a_batch_can_have_come_in_turn() -> None:
    """A hot key and 50 others, ten a batch: all have had a turn after six, the hot one no second."""
    bench = PlanBench(records_max=10)
    cool = " ".join(f"{chr(200 + n)}{100 + n}" for n in range(50))
    bench.receive(bench.assign(), f"{many('h', 0, 100)} {cool}")
    batches = []
    for _ in range(6):
        shares = bench.take()
        batches.append(offsets(shares))
        bench.end(shares)
    seen = [offset for batch in batches for offset in batch]
    assert sorted(o for o in seen[:51]) == [0, *range(100, 150)]
    assert seen[51:] == list(range(1, 10))  # the last batch had room


def test_lanes_that_were_cut_while_they_waited_are_freed_on_the_way() -> None:
    """A revoke leaves their names in the ready queue; no batch is made of them."""
    bench = PlanBench()
    gone, stays = bench.assign(0), bench.assign(1)
    bench.receive(gone, "a0 b1")
    bench.receive(stays, "c0")
    bench.dispatcher.drain(gone, below_started=False)
    bench.dispatcher.end(gone)
    assert bench.wait_s() == 0.0 or bench.wait_s() == 1.0
    assert bench.run_all() == [[0]]
    assert bench.wait_s() is None
    assert bench.is_empty()


def test_a_shared_lane_gives_one_record() -> None:
    """The next one may be another partition's."""
    bench = PlanBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 a1 b2")
    bench.receive(two, "a0 c1")
    assert bench.run_all() == [[0, 2, 1], [1], [0]]
    assert (one.watermark(), two.watermark()) == (3, 2)
    assert bench.is_empty()


# --- what becomes of it ----------------------------------------------------------------------------------


def test_the_watermark_waits_for_the_whole_batch() -> None:
    """C1: nothing of a batch is done before its handler has returned."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2 a3")
    shares = bench.take()
    assert assignment.watermark() == 0
    bench.end(shares)
    assert assignment.watermark() == 4
    assert bench.is_empty()


def test_a_failed_record_and_the_later_ones_of_its_key_stay() -> None:
    """F12: they come again in order; only the failed one has spent an attempt."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 b3")
    shares = bench.take()
    shares[0].decision = RetryHead(5.0, "later")
    bench.end(shares, lambda m: None if m.offset() == 1 else Outcome.FINISHED)
    assert assignment.watermark() == 1
    assert (assignment.finished_records, assignment.parked_records) == (2, 2)
    bench.receive(assignment, "a4")
    assert bench.take() == []
    bench.dispatcher.holds.unpark_due(5.0)
    (again,) = bench.take()
    assert (offsets([again]), again.attempt) == ([1, 2, 4], 2)
    bench.end([again])
    assert assignment.watermark() == 5
    assert bench.is_empty()


def test_a_skipped_record_in_the_middle_is_passed_in_order_and_counted() -> None:
    """The watermark passes it; it counts as skipped and not as finished."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    bench.end(bench.take(), lambda m: Outcome.SKIPPED if m.offset() == 1 else Outcome.FINISHED)
    assert (assignment.finished_records, assignment.skipped_records) == (2, 1)
    assert (bench.dispatcher.finished_records, bench.dispatcher.skipped_records) == (2, 1)
    assert assignment.watermark() == 3
    assert bench.is_empty()


def test_a_batch_that_raised_comes_again_in_halves_until_the_culprit_is_alone() -> None:
    """No attempt is spent on the way; those that succeed meanwhile come whole again."""
    bench = PlanBench(records_max=8)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3 e4 f5 g6 h7")
    sizes, culprit = [], None
    while shares := bench.take():
        found = offsets(shares)
        sizes.append(len(found))
        assert all(share.attempt == 1 for share in shares)
        if 5 not in found:
            bench.end(shares)
        elif len(found) > 1:
            bench.plan.narrow(shares, len(found) // 2)
            bench.end(shares, lambda _: None)
            assert bench.wait_s() == 0.0
        else:
            culprit = found
            shares[0].decision = HoldHead("poison")
            bench.end(shares, lambda _: None)
    assert culprit == [5]
    assert sizes == [8, 4, 4, 2, 2, 1, 1]
    assert assignment.watermark() == 5
    assert assignment.finished_records == 7


def test_fresh_records_do_not_join_suspects() -> None:
    """A lane that came after the raise is in a batch of its own, as large as ever."""
    bench = PlanBench(records_max=4, records_min=1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 e2")
    shares = bench.take()
    bench.plan.narrow(shares, 2)
    bench.end(shares, lambda _: None)
    bench.receive(assignment, "c3 d4")
    assert bench.run_all() == [[0, 1], [2], [3, 4]]
    bench.receive(assignment, "a5 b6 e7")
    assert bench.run_all() == [[5, 6, 7]]


def test_narrowed_lanes_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory follows what is there, not what ever raised."""
    monkeypatch.setattr("ehkafka.workers.batches.plan._NARROWED_MIN", 4)
    bench = PlanBench(records_max=3)
    bench.plan._narrowed_max = 4
    for _ in range(50):
        assignment = bench.assign()
        bench.receive(assignment, "a0 b1 c2")
        shares = bench.take()
        bench.plan.narrow(shares, 1)
        bench.end(shares, lambda _: None)
        bench.dispatcher.end(assignment)
    assert len(bench.plan._narrowed) <= 8


# --- revoke ----------------------------------------------------------------------------------------------


def test_a_drain_waits_for_the_batch_that_runs_and_starts_what_lies_below_it() -> None:
    """Its followers count as started: they stay, and so does what is needed for no hole below them."""
    bench = PlanBench(records_max=4)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 a3 d4")
    others = [bench.begin_key(key) for key in "bcd"]
    running = bench.take()
    bench.settle(*others)
    assert offsets(running) == [0, 3]
    bench.dispatcher.drain(assignment, below_started=True)
    assert assignment.drain_limit == 3
    assert assignment.returned_records == 1  # d4
    below = bench.take()
    assert offsets(below) == [1, 2]
    bench.end(below)
    assert not bench.dispatcher.drained(assignment)
    bench.end(running)
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == 4


def test_records_above_the_limit_of_a_drain_do_not_start() -> None:
    """A stop without drain lets what runs end; what came back to its lane does not start again."""
    bench = PlanBench(records_min=1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2")
    running = bench.take()
    bench.receive(assignment, "a3 c4")
    bench.dispatcher.drain(assignment, below_started=False)
    assert assignment.returned_records == 2
    assert bench.take() == []
    bench.end(running, lambda m: None if m.offset() == 1 else Outcome.FINISHED)
    assert bench.take() == []
    assert bench.dispatcher.drained(assignment)
    assert (assignment.watermark(), assignment.returned_records) == (1, 3)


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_what_a_batch_did_for_an_ended_epoch_is_stale(scope: str) -> None:
    """R2: dropped and counted, the lanes of other partitions go on."""
    bench = PlanBench(scope)
    lost, kept = bench.assign(0), bench.assign(1)
    bench.receive(lost, "a0 a1 b2")
    bench.receive(kept, "c0 c1")
    shares = bench.take()
    bench.dispatcher.end(lost)
    started = sum(share.lane.assignment is lost for share in shares for _ in share.messages)
    bench.end(shares, lambda m: Outcome.SKIPPED if m.offset() == 2 else Outcome.FINISHED)
    bench.run_all()
    assert lost.stale_records == started
    assert (lost.finished_records, lost.skipped_records) == (0, 0)
    assert kept.watermark() == 2
    assert bench.is_empty()


def test_what_a_drain_does_not_want_does_not_start_with_a_head_below_its_limit() -> None:
    """Past a held head all is repeated anyway: a batch that raised comes again without what lies there."""
    bench = PlanBench(records_min=1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b3 a5")
    bench.fail_head(bench.begin_key("b"), HoldHead("poison"))
    shares = bench.take()
    assert offsets(shares) == [0, 5]
    bench.dispatcher.drain(assignment, below_started=True)
    assert assignment.drain_limit == 3
    bench.plan.narrow(shares, 2)
    bench.end(shares, lambda _: None)
    assert offsets(bench.take()) == [0]


def test_what_is_behind_a_failed_record_is_not_started_any_more() -> None:
    """While the desk decides, a drain takes the later ones out; the failed one is waited for."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2")
    shares = bench.take()
    shares[0].ended_records = 1
    bench.plan.pass_over(shares)
    bench.dispatcher.drain(assignment, below_started=True)
    assert (assignment.drain_limit, assignment.returned_records) == (1, 1)
    assert not bench.dispatcher.drained(assignment)
    shares[0].decision = HoldHead("poison")
    bench.plan.hand_in(shares, bench.now_s)
    assert bench.dispatcher.drained(assignment)


def test_a_batch_that_is_only_collected_is_not_started() -> None:
    """A revoke finds its records queued: none is waited for, all are returned."""
    bench = PlanBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    assert bench.wait_s() == 1.0
    bench.dispatcher.drain(assignment, below_started=True)
    assert bench.dispatcher.drained(assignment)
    assert bench.dispatcher.end(assignment) == 3


# --- all of it -------------------------------------------------------------------------------------------


class World:
    """Random receives, batches, failures, drains and ends; each step checks what must hold."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        self.scope = rng.choice(["partition", "partition", "handler"])
        self.bench = PlanBench(
            self.scope,
            records_max=rng.choice([1, 2, 5, 30]),
            records_min=1,
            bytes_max=rng.choice([None, 1, 5]),
            unique_keys=rng.random() < 0.2,
        )
        self.next_offset = [0, 0]
        self.assignments: list[Assignment] = [self.bench.assign(0), self.bench.assign(1)]
        self.running: list[list[Share]] = []
        self.done: dict[Any, set[int]] = {}
        self.last_started: dict[Any, int] = {}

    def step(self) -> None:
        """Do one thing."""
        act = self.rng.choices(
            [self.receive, self.take, self.end_one, self.unpark, self.end_epoch], [4, 4, 4, 1, 0.3]
        )[0]
        act()
        for assignment in self.assignments:
            self.check(assignment)

    def receive(self) -> None:
        """Receive a few records of one partition."""
        number = self.rng.randrange(2)
        first = self.next_offset[number]
        count = self.rng.randrange(1, 12)
        self.next_offset[number] += count
        text = " ".join(f"{self.rng.choice('abcdef')}{first + n}" for n in range(count))
        if not self.assignments[number].halted:
            self.bench.receive(self.assignments[number], text)

    def take(self) -> None:
        """Take a batch; its records must follow what of their key was started before."""
        if len(self.running) < 3 and (shares := self.bench.take()):
            lanes = [share.lane for share in shares]
            assert len(set(map(id, lanes))) == len(lanes)
            busy = {id(share.lane) for batch in self.running for share in batch}
            assert not busy & set(map(id, lanes))
            for share in shares:
                for before, after in zip(share.messages, share.messages[1:], strict=False):
                    assert before.offset() < after.offset()
            self.running.append(shares)

    def end_one(self) -> None:
        """End a batch in a random way."""
        if not self.running:
            return
        shares = self.running.pop(self.rng.randrange(len(self.running)))
        if self.rng.random() < 0.1:
            self.bench.plan.narrow(shares, max(1, sum(len(s.messages) for s in shares) // 2))
            self.bench.end(shares, lambda _: None)
            return
        for share in shares:
            assignment, key = share.lane.assignment, share.lane.key
            stop_at = self.rng.choice([None, None, 0, len(share.messages) - 1])
            for number, message in enumerate(share.messages):
                if number == stop_at:
                    share.decision = self.rng.choice([RetryHead(1.0, "again"), None])
                    break
                share.ended_records += 1
                share.skipped_records += self.rng.random() < 0.3
                if not assignment.ended:
                    name = (assignment.partition, assignment.epoch)
                    assert message.offset() not in self.done.setdefault(name, set())
                    assert self.last_started.get((*name, key), -1) < message.offset()
                    self.last_started[*name, key] = message.offset()
                    self.done[name].add(message.offset())
        self.bench.plan.pass_over(shares)
        self.bench.plan.hand_in(shares, self.bench.now_s)

    def unpark(self) -> None:
        """Let time pass."""
        self.bench.now_s += 2.0
        self.bench.dispatcher.holds.unpark_due(self.bench.now_s)

    def end_epoch(self) -> None:
        """Drain or lose a partition and assign it anew."""
        number = self.rng.randrange(2)
        assignment = self.assignments[number]
        if self.rng.random() < 0.7:
            self.bench.dispatcher.drain(assignment, below_started=self.rng.random() < 0.7)
            limit = assignment.drain_limit
            for _ in range(20_000):
                self.take() if self.rng.random() < 0.5 else self.end_one()
                self.unpark()
                if self.bench.dispatcher.drained(assignment):
                    break
            else:
                raise AssertionError("the drain is never over")
            if limit >= 0 and assignment.returned_from is not None and self.scope == "partition":
                assert assignment.returned_from > limit
            self.check(assignment)
        self.bench.dispatcher.end(assignment)
        self.assignments[number] = self.bench.assign(number)

    def check(self, assignment: Assignment) -> None:
        """No watermark passes a record without an outcome, and the counts agree."""
        done = self.done.get((assignment.partition, assignment.epoch), set())
        assert assignment.finished_records + assignment.skipped_records == len(done)
        unfinished = [message.offset() for message in assignment.unfinished()]
        assert assignment.unfinished_records == len(unfinished)
        watermark = assignment.watermark()
        assert watermark is None or all(offset >= watermark for offset in unfinished)

    def finish(self) -> None:
        """End everything; nothing may be left."""
        while self.running or self.bench.dispatcher.unfinished_records:
            self.unpark()
            self.take()
            self.end_one()
        assert self.bench.take() == []
        assert self.bench.is_empty()


@pytest.mark.parametrize("seed", range(60))
def test_random_batches_keep_order_counts_and_watermark(seed: int) -> None:
    """C9, O1: receives, batches, failures, narrowing, drains and ends in any order."""
    world = World(seed)
    for _ in range(250):
        world.step()
    world.finish()
