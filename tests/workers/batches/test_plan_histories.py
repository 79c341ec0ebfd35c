"""Random histories of a batch plan keep order, counts and watermark."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import RetryHead

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.workers.batches.plan import Share

from tests.workers.batches.plan_bench import PlanBench


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
    """Receives, batches, failures, narrowing, drains and ends in any order."""
    world = World(seed)
    for _ in range(250):
        world.step()
    world.finish()
