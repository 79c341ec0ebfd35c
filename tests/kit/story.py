"""Histories written by hand: a short notation for tests of checkers and of what reads histories.

Every call appends events of one process to one partition, unless asked otherwise, and returns the story.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ehkafka.records import TopicPartition
from tests.kit.checker import history_event as events
from tests.kit.checker.checker import Checker, check_history

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from tests.kit.checker.verdict import Verdict

PARTITION = TopicPartition("readings", 0)
# What tells of records that were produced and of processes that were killed.
_HARNESS_PID = 99


class Story:
    """A list of `events`; times count up from 0, the run of process 1 is `run-1`."""

    def __init__(self) -> None:
        self.events: list[events.HistoryEvent] = []

    def add(self, kind: Callable[..., events.HistoryEvent], *fields: object, pid: int = 1) -> Self:
        """Append any event."""
        self.events.append(kind(len(self.events), pid, f"run-{pid}", *fields))
        return self

    def produced(self, *offsets: int) -> Self:
        """Note records that are owed an outcome."""
        return self.add(events.Produced, PARTITION, offsets, pid=_HARNESS_PID)

    def assigned(
        self, epoch: int = 1, *, pid: int = 1, at: str = "earliest", on: TopicPartition = PARTITION
    ) -> Self:
        """Begin an epoch."""
        return self.add(events.Assigned, on, epoch, at, pid=pid)

    def revoked(self, epoch: int = 1, *, pid: int = 1, reason: str = "revoked") -> Self:
        """End an epoch."""
        return self.add(events.Revoked, PARTITION, epoch, reason, pid=pid)

    def received(self, *offsets: int, epoch: int = 1, pid: int = 1, on: TopicPartition = PARTITION) -> Self:
        """Hand records to the dispatcher."""
        return self.add(events.Received, on, epoch, offsets, pid=pid)

    def jumped(self, next_offset: int, *, epoch: int = 1) -> Self:
        """Go on at a later offset."""
        return self.add(events.Jumped, PARTITION, epoch, next_offset)

    def start(self, offset: int, key: Hashable = "k", *, attempt: int = 1, **where: Any) -> Self:
        """Begin an attempt. `where`: `on`, `epoch`, `pid`."""
        on, epoch, pid = where.get("on", PARTITION), where.get("epoch", 1), where.get("pid", 1)
        return self.add(events.Started, on, epoch, offset, key, attempt, pid=pid)

    def finish(
        self, offset: int, key: Hashable = "k", outcome: str = "finished", *, attempt: int = 1, **where: Any
    ) -> Self:
        """End an attempt. `where`: `on`, `epoch`, `pid`."""
        on, epoch, pid = where.get("on", PARTITION), where.get("epoch", 1), where.get("pid", 1)
        return self.add(events.Finished, on, epoch, offset, key, attempt, outcome, pid=pid)

    def run(self, offset: int, key: Hashable = "k", *, attempt: int = 1, **where: Any) -> Self:
        """Begin and end an attempt."""
        self.start(offset, key, attempt=attempt, **where)
        return self.finish(offset, key, attempt=attempt, **where)

    def request(self, next_offset: int, *, pid: int = 1) -> Self:
        """Send a commit."""
        return self.add(events.CommitRequested, {PARTITION: next_offset}, pid=pid)

    def acknowledge(self, next_offset: int, *, pid: int = 1) -> Self:
        """Answer a commit."""
        return self.add(events.CommitAcknowledged, {PARTITION: next_offset}, pid=pid)

    def commit(self, next_offset: int, *, pid: int = 1) -> Self:
        """Send and answer a commit."""
        return self.request(next_offset, pid=pid).acknowledge(next_offset, pid=pid)

    def killed(self, pid: int) -> Self:
        """Kill a process."""
        return self.add(events.ProcessKilled, pid, pid=_HARNESS_PID)

    def verdict(self, **options: Any) -> Verdict:
        """Judge the story with a `Checker` of these options."""
        return check_history(self.events, Checker(**options))
