"""Histories that keep what the engine tells them: the recording part, and one that records in memory.

A history never judges and never drops an event. Called by the engine from the poll thread and from
every worker at once; one lock makes the order of the events the order of the calls.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from tests.kit.checker import history_event as events

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from ehkafka.records import TopicPartition


class RecordingHistory(ABC):
    """An `ehkafka.events.history.History` that turns each call into an event and stores it.

    It takes the engine's calls and those of a test harness: `produced`, `dead_lettered`, `mirrored`,
    `process_started`, `process_stopped`, `process_killed`.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.run = secrets.token_hex(4)
        self._lock = threading.Lock()

    @abstractmethod
    def _store(self, event: events.HistoryEvent) -> None:
        """Keep one event. Called with the lock held."""

    def _record(self, kind: Callable[..., events.HistoryEvent], *fields: object) -> None:
        # The time is read under the lock: within one process, time order and stored order agree.
        with self._lock:
            self._store(kind(time.monotonic_ns(), self.pid, self.run, *fields))

    def assigned(self, partition: TopicPartition, epoch: int, position: str) -> None:
        """Note that an epoch began at this position."""
        self._record(events.Assigned, partition, epoch, position)

    def revoked(self, partition: TopicPartition, epoch: int, reason: str) -> None:
        """Note that an epoch ended; reason: `revoked`, `lost` or `stopped`."""
        self._record(events.Revoked, partition, epoch, reason)

    def received(self, partition: TopicPartition, epoch: int, offsets: Sequence[int]) -> None:
        """Note that these offsets, ascending, were handed to the dispatcher."""
        self._record(events.Received, partition, epoch, tuple(offsets))

    def jumped(self, partition: TopicPartition, epoch: int, next_offset: int) -> None:
        """Note that an epoch goes on at a later offset, over what the log does not hold."""
        self._record(events.Jumped, partition, epoch, next_offset)

    def started(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int
    ) -> None:
        """Note that an attempt begins on the calling thread."""
        worker = threading.current_thread().name
        self._record(events.Started, partition, epoch, offset, key, attempt, worker)

    def finished(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int, outcome: str
    ) -> None:
        """Note that an attempt ended, or a record got an outcome without one."""
        worker = threading.current_thread().name
        self._record(events.Finished, partition, epoch, offset, key, attempt, outcome, worker)

    def commit_requested(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note that a commit of these next_offsets is about to be sent."""
        self._record(events.CommitRequested, dict(next_offsets))

    def commit_acknowledged(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the broker stored these next_offsets."""
        self._record(events.CommitAcknowledged, dict(next_offsets))

    def commit_failed(self, next_offsets: Mapping[TopicPartition, int], error: str) -> None:
        """Note that the broker refused, or the answer never came."""
        self._record(events.CommitFailed, dict(next_offsets), error)

    def produced(self, partition: TopicPartition, offsets: Sequence[int]) -> None:
        """Note that a producer of the harness got these offsets acknowledged."""
        self._record(events.Produced, partition, tuple(offsets))

    def dead_lettered(self, partition: TopicPartition, offset: int) -> None:
        """Note that the dead-letter topic acknowledged a copy of this record."""
        self._record(events.DeadLettered, partition, offset)

    def mirrored(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the blob mirror stored these next_offsets."""
        self._record(events.Mirrored, dict(next_offsets))

    def process_started(self) -> None:
        """Note that this process takes part from here on."""
        self._record(events.ProcessStarted)

    def process_stopped(self) -> None:
        """Note that this process ends by itself; nothing of it may follow."""
        self._record(events.ProcessStopped)

    def process_killed(self, pid: int) -> None:
        """Note that the process `pid` is dead. Call it after `wait`, so that no line of it can follow."""
        self._record(events.ProcessKilled, pid)


class MemoryHistory(RecordingHistory):
    """Keeps every event in `events`, in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[events.HistoryEvent] = []

    def _store(self, event: events.HistoryEvent) -> None:
        self.events.append(event)
