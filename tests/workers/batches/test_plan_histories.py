"""Random histories of a batch plan keep order, counts and watermark."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import RetryHead
from ehkafka.workers.batches.share import Share
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.workers.batches.share import Part

from tests.workers.batches.plan_bench import PlanBench


class World:
    """Random receives, batches, failures, drains and ends; each step checks what must hold."""

    def __init__(self, seed: int, *, slices: bool = False) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        self.slices = slices
        self.scope = "partition" if slices else rng.choice(["partition", "partition", "handler"])
        self.bench = PlanBench(
            self.scope,
            slices=slices,
            order_by=(lambda message: ("own", message.key())) if slices and rng.random() < 0.3 else None,
            records_max=rng.choice([1, 2, 5, 30]),
            records_min=1,
            bytes_max=rng.choice([None, 1, 5]),
        )
        self.next_offset = [0, 0]
        self.assignments: list[Assignment] = [self.bench.assign(0), self.bench.assign(1)]
        self.running: list[list[Part]] = []
        self.done: dict[Any, set[int]] = {}
        self.last_started: dict[Any, int] = {}
        # What the steps of this run have met.
        self.met: Counter[str] = Counter()

    def step(self) -> None:
        """Do one thing."""
        acts = [self.receive, self.take, self.end_one, self.unpark, self.end_epoch]
        weights = [4, 4, 4, 1, 0.3]
        if self.slices:
            acts += [self.turn, self.give_lanes, self.pause, self.resume]
            weights += [0.4, 1.0, 0.05, 0.4]
        self.rng.choices(acts, weights)[0]()
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

    def turn(self) -> None:
        """Let the handler become quick, or slow."""
        self.bench.slices.on = self.rng.random() < 0.8

    def give_lanes(self) -> None:
        """Give lanes to what runs, or to all."""
        chunks = [part for parts in self.running for part in parts if isinstance(part, Chunk)]
        if chunks and self.rng.random() < 0.7:
            self.met["lanes while it runs"] += 1
            self.bench.dispatcher.end_early(self.rng.choice(chunks))
        elif self.rng.random() < 0.2:
            self.bench.dispatcher.dissolve_chunks()

    def pause(self) -> None:
        """Pause a key."""
        (key,) = self.bench.reader.keys([WatchedMessage("t", 0, 0, self.rng.choice("abcdef").encode())])
        self.bench.dispatcher.holds.pause_key(key)

    def resume(self) -> None:
        """Let all keys go on."""
        holds = self.bench.dispatcher.holds
        for key in list(holds.paused_keys):
            holds.resume_key(key)

    def take(self) -> None:
        """Take a batch; its records must follow what of their key was started before."""
        if len(self.running) >= 3 or not (parts := self.bench.take()):
            return
        self.met["chunks"] += any(isinstance(part, Chunk) for part in parts)
        self.met["lanes"] += any(isinstance(part, Share) for part in parts)
        busy = {name for batch in self.running for name, _ in self.records_of(batch)}
        last: dict[Any, int] = {}
        for name, message in self.records_of(parts):
            assert self.scope == "handler" or name not in busy, f"{name} is in two batches"
            assert self.scope == "handler" or last.get(name, -1) < message.offset()
            last[name] = message.offset()
        assert len(self.records_of(parts)) <= self.bench.plan.limits.records_max
        size = sum(len(message) for _, message in self.records_of(parts))
        bytes_max = self.bench.plan.limits.bytes_max
        assert bytes_max is None or size <= bytes_max or len(self.records_of(parts)) == 1
        self.running.append(parts)

    def records_of(self, parts: list[Part]) -> list[tuple[Any, Any]]:
        """Return the records of a batch, with epoch and key."""
        found = []
        for part in parts:
            assignment = part.lane.assignment if isinstance(part, Share) else part.assignment
            found += [((assignment.partition, assignment.epoch, m.key()), m) for m in part.messages]
        return found

    def end_one(self) -> None:
        """End a batch in a random way."""
        if not self.running:
            return
        parts = self.running.pop(self.rng.randrange(len(self.running)))
        drawn = self.rng.random()
        if drawn < 0.4:
            self.end_whole(parts)
            return
        shares = self.bench.plan.separate(parts)
        if drawn < 0.5:
            self.met["raised"] += 1
            self.bench.plan.narrow(shares, max(1, sum(len(s.messages) for s in shares) // 2))
            self.bench.end(list(shares), lambda _: None)
            return
        for share in shares:
            stop_at = self.rng.choice([None, None, 0, len(share.messages) - 1])
            for number, message in enumerate(share.messages):
                if number == stop_at:
                    share.decision = self.rng.choice([RetryHead(1.0, "again"), None])
                    break
                share.ended_records += 1
                share.skipped_records += self.rng.random() < 0.3
                self.note_done(share.lane.assignment, message)
        self.bench.plan.pass_over(shares)
        self.bench.plan.hand_in(shares, self.bench.now_s)

    def end_whole(self, parts: list[Part]) -> None:
        """Finish all of a batch."""
        for part in parts:
            for message in part.messages:
                self.note_done(part.lane.assignment if isinstance(part, Share) else part.assignment, message)
        self.met["whole"] += any(isinstance(part, Chunk) and part.is_out for part in parts)
        self.bench.finish_all(parts)

    def note_done(self, assignment: Assignment, message: Any) -> None:
        """Note an outcome: the only one of the record, and after those of its key before it."""
        if assignment.ended:
            return
        name, key = (assignment.partition, assignment.epoch), message.key()
        assert message.offset() not in self.done.setdefault(name, set())
        if self.scope == "partition":
            assert self.last_started.get((*name, key), -1) < message.offset()
        self.last_started[*name, key] = message.offset()
        self.done[name].add(message.offset())

    def unpark(self) -> None:
        """Let time pass."""
        self.bench.now_s += self.rng.choice([2.0, 2.0, 0.006])
        self.bench.dispatcher.holds.unpark_due(self.bench.now_s)

    def end_epoch(self) -> None:
        """Drain or lose a partition and assign it anew."""
        number = self.rng.randrange(2)
        assignment = self.assignments[number]
        if self.rng.random() < 0.7:
            self.bench.dispatcher.drain(assignment, below_started=self.rng.random() < 0.7)
            limit = assignment.drain_limit
            self.resume()
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
        self.resume()
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


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_batches_of_chunks_keep_order_counts_and_watermark(first: int) -> None:
    """The same with chunks: whole, separated, given lanes while they run, and in turns with lanes alone."""
    met: Counter[str] = Counter()
    for seed in range(first, first + 20):
        world = World(seed, slices=True)
        for _ in range(250):
            world.step()
        world.finish()
        assert not world.bench.slices.blocked
        assert not world.bench.plan.due.taken_s
        met += world.met
    assert min(met[what] for what in ("chunks", "lanes", "whole", "raised", "lanes while it runs")) > 20, met
