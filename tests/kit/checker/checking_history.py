"""A history that judges while the run goes on and stores nothing: for runs of millions of records.

Called by the engine from the poll thread and every worker. Appending to a deque is atomic, so the
deque holds the calls in one order that agrees with each thread's own and with whatever one thread saw
of another: all that the checker asks for. A caller that finds enough of them queued judges them, unless
another one does so. A plain lock around the checker is as correct, but under many threads the one that is
preempted while holding it stalls all others.

Measured on 4 shared cores, Python 3.11, threads that do nothing else, per record (a start, an end, its
share of receipt and commit): 1.1-2.0 us on one thread, 2.0-3.0 us on 4 or 8 (plain lock: 1.4 and 15-20).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from tests.kit.checker.checker import Checker

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from ehkafka.records import TopicPartition
    from tests.kit.checker.verdict import Verdict

# Calls queued before one thread judges them; it judges no more than those, so that no worker is kept.
_QUEUED_BEFORE_JUDGING = 512
# At this many the calling thread waits for the judging one. It bounds the memory, and keeps what is queued
# in the processor's cache: with 65 536 a record costs twice as much.
_QUEUED_MAX = 1_024


class CheckingHistory:
    """Feeds a `Checker` with what one process does. Ask `verdict()` at any time, from any thread."""

    def __init__(self, checker: Checker | None = None) -> None:
        self._checker = checker or Checker()
        self._process = self._checker.process("this process", os.getpid())
        # Appended to by every thread; popped only by the holder of the lock, which guards the checker.
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._lock = threading.Lock()

    def verdict(self, *, complete: bool = False) -> Verdict:
        """Return the judgement so far; `complete` also judges what was produced and not finished."""
        with self._lock:
            self._judge(len(self._calls))
            return self._checker.verdict(complete=complete)

    def assigned(self, partition: TopicPartition, epoch: int, position: str) -> None:
        """Note that an epoch began at this position."""
        self._queue(self._process.assigned, partition, epoch, position)

    def revoked(self, partition: TopicPartition, epoch: int, reason: str) -> None:
        """Note that an epoch ended; reason: `revoked`, `lost` or `stopped`."""
        self._queue(self._process.revoked, partition, epoch, reason)

    def received(self, partition: TopicPartition, epoch: int, offsets: Sequence[int]) -> None:
        """Note that these offsets, ascending, were handed to the dispatcher."""
        self._queue(self._process.received, partition, epoch, tuple(offsets))

    def jumped(self, partition: TopicPartition, epoch: int, next_offset: int) -> None:
        """Note that an epoch continues at a later offset, over what the log does not hold."""
        self._queue(self._process.jumped, partition, epoch, next_offset)

    def started(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int
    ) -> None:
        """Note that an attempt begins on the calling thread."""
        calls = self._calls
        calls.append((self._process.started, (partition, epoch, offset, key, attempt)))
        if len(calls) > _QUEUED_BEFORE_JUDGING:
            self._judge_queued()

    def finished(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int, outcome: str
    ) -> None:
        """Note that an attempt ended, or a record got an outcome without one."""
        # No judging here: the record's lane is waiting for this call to return.
        self._calls.append((self._process.finished, (partition, epoch, offset, key, attempt, outcome)))

    def dead_lettered(self, partition: TopicPartition, offset: int) -> None:
        """Note that a dead letter is safe; it proves nothing here, for `finished` has the outcome."""

    def commit_requested(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note that a commit of these next_offsets is about to be sent."""
        self._queue(self._process.commit_requested, dict(next_offsets))

    def commit_acknowledged(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the broker stored these next_offsets."""
        self._queue(self._process.commit_acknowledged, dict(next_offsets))

    def commit_failed(self, next_offsets: Mapping[TopicPartition, int], error: str) -> None:
        """Note that the broker refused, or the answer never came."""
        self._queue(self._process.commit_failed, dict(next_offsets), error)

    def produced(self, partition: TopicPartition, offsets: Sequence[int]) -> None:
        """Note that a producer of the harness got these offsets acknowledged."""
        self._queue(self._checker.produced, partition, tuple(offsets))

    def mirrored(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note that the blob mirror stored these next_offsets."""
        self._queue(self._process.mirrored, dict(next_offsets))

    def _queue(self, call: Callable[..., object], *arguments: object) -> None:
        self._calls.append((call, arguments))
        if len(self._calls) > _QUEUED_BEFORE_JUDGING:
            self._judge_queued()

    def _judge_queued(self) -> None:
        queued = len(self._calls)
        if self._lock.acquire(blocking=queued > _QUEUED_MAX):
            try:
                # Counted again: while this thread waited, another may have judged them all.
                self._judge(len(self._calls))
            finally:
                self._lock.release()

    def _judge(self, count: int) -> None:
        next_call = self._calls.popleft
        for _ in range(count):
            call, arguments = next_call()
            call(*arguments)
