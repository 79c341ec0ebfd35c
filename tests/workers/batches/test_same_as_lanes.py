"""Batches of chunks end as batches of lanes do: the same records and failures, whatever the batches are."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import HoldHead, RetryHead, SkipHead
from ehkafka.workers.batches.share import Share
from tests.workers.batches.plan_bench import PlanBench

if TYPE_CHECKING:
    from ehkafka.workers.batches.share import Part

RECORDS = 300
ATTEMPTS = 3


@dataclass
class Ended:
    """How records ended: by key in their order, what became of each and at which attempt."""

    by_key: dict[Any, list[tuple[int, str, int]]] = field(default_factory=lambda: defaultdict(list))
    watermarks: list[int | None] = field(default_factory=list)
    counts: tuple[int, ...] = ()
    held: list[int] = field(default_factory=list)
    # Not compared: how many batches had chunks.
    with_chunks: int = 0


class Run:
    """One history of records, through chunks or lanes alone; what fails depends on the records alone."""

    def __init__(self, seed: int, *, slices: bool) -> None:
        rng = random.Random(seed)
        self.keys = [rng.choice("abcdefgh") for _ in range(RECORDS)]
        # What becomes of some records, alone or with their batch, at their first attempts.
        self.fails = {
            offset: rng.choice(["raise", "fail", "skip", "refuse", "fail for good"])
            for offset in rng.sample(range(RECORDS), 25)
        }
        records_max = rng.choice([3, 10, 40])
        self.bench = PlanBench(slices=slices, records_max=records_max, records_min=1)
        self.assignments = [self.bench.assign(0), self.bench.assign(1)]
        # The rest is drawn as it comes: it is the schedule, which must not matter.
        self.rng = random.Random(f"{seed} {slices}")
        self.running: list[list[Part]] = []
        self.ended = Ended()

    def run(self) -> Ended:
        """Handle everything; return how it ended."""
        given = 0
        while given < RECORDS or self.running or self.bench.dispatcher.backlog_records or self._is_due():
            self.bench.now_s += self.rng.choice([0.0, 0.001, 0.01, 1.0])
            self.bench.dispatcher.holds.unpark_due(self.bench.now_s)
            if given < RECORDS and self.rng.random() < 0.5:
                until = min(RECORDS, given + self.rng.randrange(1, 30))
                self.receive(range(given, until))
                given = until
            if len(self.running) < 3 and (parts := self.bench.take()):
                self.ended.with_chunks += any(isinstance(part, Chunk) for part in parts)
                self.running.append(parts)
            if self.running and self.rng.random() < 0.6:
                self.end(self.running.pop(self.rng.randrange(len(self.running))))
        dispatcher = self.bench.dispatcher
        ended = self.ended
        ended.watermarks = [assignment.watermark() for assignment in self.assignments]
        ended.counts = (dispatcher.finished_records, dispatcher.skipped_records, dispatcher.parked_records)
        ended.held = sorted(m.offset() for lane in dispatcher.holds.held for m in lane.messages())
        return ended

    def _is_due(self) -> bool:
        return self.bench.dispatcher.holds.next_due_s() is not None

    def receive(self, offsets: range) -> None:
        """Receive some: even offsets in one partition, odd ones in the other."""
        for number, assignment in enumerate(self.assignments):
            text = " ".join(f"{self.keys[o]}{o}" for o in offsets if o % 2 == number)
            if text:
                self.bench.receive(assignment, text)

    def end(self, parts: list[Part]) -> None:
        """End a batch as `BatchWorkers` does."""
        messages = [message for part in parts for message in part.messages]
        if any(self._fails(message, "raise", parts) for message in messages):
            shares = self.bench.plan.separate(parts)
            if len(messages) > 1:
                self.bench.plan.narrow(shares, len(messages) // 2)
            else:
                shares[0].decision = RetryHead(0.5, "raised")
            self.bench.plan.pass_over(shares)
            self.bench.plan.hand_in(shares, self.bench.now_s)
        elif any(message.offset() in self.fails for message in messages):
            shares = self.bench.plan.separate(parts)
            for share in shares:
                self._note_share(share)
            self.bench.plan.pass_over(shares)
            self.bench.plan.hand_in(shares, self.bench.now_s)
        else:
            for part in parts:
                for number, message in enumerate(part.messages):
                    attempt = part.attempt if isinstance(part, Share) and not number else 1
                    self._note(message, "finished", attempt)
            self.bench.finish_all(parts)

    def _fails(self, message: Any, how: str, parts: list[Part]) -> bool:
        if self.fails.get(message.offset()) != how:
            return False
        attempts = {p.messages[0].offset(): p.attempt for p in parts if isinstance(p, Share)}
        return attempts.get(message.offset(), 1) < ATTEMPTS

    def _note_share(self, share: Share) -> None:
        for number, message in enumerate(share.messages):
            attempt = 1 if number else share.attempt
            how = self.fails.get(message.offset())
            if how == "skip":
                share.skipped_records += 1
            elif how == "refuse":
                share.decision = SkipHead("no")
                self._note(message, "skipped", attempt)
                return
            elif how == "fail for good":
                share.decision = HoldHead("poison")
                self._note(message, "held", attempt)
                return
            elif how == "fail" and attempt < ATTEMPTS:
                share.decision = RetryHead(0.5, "again")
                return
            share.ended_records += 1
            self._note(message, "skipped" if how == "skip" else "finished", attempt)

    def _note(self, message: Any, outcome: str, attempt: int) -> None:
        key = (message.partition(), message.key())
        self.ended.by_key[key].append((message.offset(), outcome, attempt))


@pytest.mark.parametrize("seed", range(30))
def test_records_end_as_with_lanes_alone(seed: int) -> None:
    """Outcomes, attempts, order of each key, watermarks and counts."""
    chunks, lanes = Run(seed, slices=True).run(), Run(seed, slices=False).run()
    assert chunks.by_key == lanes.by_key
    assert (chunks.watermarks, chunks.counts, chunks.held) == (lanes.watermarks, lanes.counts, lanes.held)
    assert chunks.with_chunks > 0
    assert lanes.with_chunks == 0
