"""A commit never passes a record whose outputs wait: positions are read first, what waits second."""

from __future__ import annotations

from typing import Any

from ehkafka.progress.saving import ProgressSaver
from tests.kit.inbox_bench import InboxBench


def commit_while_a_record_ends(kind: type[ProgressSaver]) -> int:
    """Let a record end between the look at positions and that at outputs; return what is committed."""
    bench = InboxBench()
    epoch = bench.assign()
    epoch.received.next_offset = 0
    bench.receive(epoch, "a0")
    worker = bench.call()
    waiting: set[int] = set()

    def lowest() -> dict[Any, int]:
        found = {epoch: min(waiting)} if waiting else {}
        if not waiting:
            # A worker, meanwhile: its output is put before its record ends.
            waiting.add(0)
            bench.finish(worker)
        return found

    saver = kind(4000, clock=lambda: 0.0)
    saver.lowest = lowest
    saver.begin(epoch, None)
    sample = saver.sample(epoch)
    assert sample is not None
    return saver.position(sample).next_offset


def test_a_record_that_ends_during_the_look_is_not_committed() -> None:
    """Its output waits."""
    assert commit_while_a_record_ends(ProgressSaver) == 0


def test_mutant_what_waits_is_taken_first() -> None:
    """The record ends in between, with an output that is not acknowledged."""

    class OutputsFirst(ProgressSaver):
        def inspect(self, epoch: Any, *, fully: bool) -> Any:
            lowest = self.lowest()
            self.lowest = lambda: lowest
            return super().inspect(epoch, fully=fully)

    assert commit_while_a_record_ends(OutputsFirst) == 1
