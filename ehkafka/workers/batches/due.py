"""When a batch goes: because it is full, because its time is over, or because nothing more will come.

Pure; time comes in as an argument; the caller has the bookkeeping lock.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ehkafka.lanes.lane import SharedLane
from ehkafka.lanes.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message
    from ehkafka.workers.batches.share import BatchLimits

# A batch that runs for so long gets lanes if records of its partitions wait behind it and a worker is idle:
# those of other keys need not wait. Lanes cost more than quick batches take.
LATE_S = 5e-3


class Due:
    """Looks at what is ready, and at what waits behind batches that run."""

    def __init__(self, dispatcher: Dispatcher, limits: BatchLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        # Nothing more is received, or everybody is to leave: wait for nothing. Set once.
        self.is_hurried = False
        # Lane → records that a batch with it may have, since one with its head raised.
        self.narrowed: dict[Lane, int] = {}
        # When each chunk that a worker has was taken.
        self.taken_s: dict[Chunk, float] = {}

    @property
    def has_work(self) -> bool:
        """Whether something may be there for a batch. Without the lock it is only a hint."""
        slices = self.slices
        return bool(self._dispatcher.ready or (slices is not None and (slices.waits or slices.blocked)))

    @property
    def slices(self) -> Slices | None:
        """The chunks, where the handler has any."""
        express = self._dispatcher.express
        assert express is None or isinstance(express, Slices)
        return express

    def wait_s(self, now_s: float) -> float | None:
        """Return how long the next batch still waits; 0: it is to be taken now. None: nothing is ready."""
        waits = (self.ready_wait_s(now_s), self._blocked_wait_s(now_s))
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def late(self, now_s: float) -> list[Chunk]:
        """Return the chunks that have run for long while records wait behind them."""
        blocked = () if self.slices is None else self.slices.blocked
        return [assignment.chunks[0] for assignment in blocked if self._late_s(assignment) <= now_s]

    def ready_wait_s(self, now_s: float) -> float | None:
        """Return the same, not minding what is behind chunks that run."""
        chunk, first = self._next_chunk(), self.first_lane()
        if first is None and chunk is None:
            return 0.0 if self._dispatcher.ready else None  # cut lanes: taking them frees them
        if self.must_go(first) or self._is_enough():
            return 0.0
        return max(0.0, self.oldest_s(now_s) + self._limits.wait_s_max - now_s)

    def _blocked_wait_s(self, now_s: float) -> float | None:
        """Return how long it takes until chunks that run get lanes, for those behind them."""
        slices = self.slices
        if slices is None or not slices.blocked:
            return None
        goes = self.is_hurried or self._is_enough(with_blocked=True)
        dues = []
        for assignment in slices.blocked:
            due_s = self._late_s(assignment)
            if not goes:
                first_s = _received_s(assignment, assignment.chunks[1].messages[0], now_s)
                due_s = max(due_s, first_s + self._limits.wait_s_max)
            dues.append(due_s)
        return max(0.0, min(dues) - now_s)

    def _late_s(self, blocked: Assignment) -> float:
        return self.taken_s[blocked.chunks[0]] + LATE_S

    def _next_chunk(self) -> Chunk | None:
        return None if self.slices is None else self.slices.next()

    def first_lane(self) -> Lane | None:
        """Return the ready lane that would be taken first."""
        return next((lane for lane in self._dispatcher.ready if lane.head is not None), None)

    def oldest_s(self, now_s: float) -> float:
        """Return when the first record came of what is ready."""
        return min(self._lane_s(now_s), self._chunk_s(now_s))

    def _lane_s(self, now_s: float) -> float:
        first = self.first_lane()
        return (
            now_s if first is None or first.head is None else _received_s(first.assignment, first.head, now_s)
        )

    def _chunk_s(self, now_s: float) -> float:
        chunk = self._next_chunk()
        return now_s if chunk is None else _received_s(chunk.assignment, chunk.messages[0], now_s)

    def is_chunk_first(self, now_s: float) -> bool:
        """Tell whether the chunk whose turn it is came before the first lane: neither starves the other."""
        first = self.first_lane()
        is_narrowed = first is not None and first in self.narrowed
        return not is_narrowed and self._chunk_s(now_s) < self._lane_s(now_s)

    def must_go_now(self, now_s: float) -> bool:
        """Tell whether what is ready goes, however little it is."""
        return self.must_go(self.first_lane()) or self.oldest_s(now_s) + self._limits.wait_s_max <= now_s

    def must_go(self, first: Lane | None) -> bool:
        """Tell whether a batch with this lane goes whatever there is."""
        # A partition that is being drained gets nothing more and is waited for; what came back from a
        # batch that raised has waited already.
        return (
            self.is_hurried
            or first in self.narrowed
            or any(assignment.halted for assignment in self._dispatcher.assignments.values())
        )

    def _is_enough(self, *, with_blocked: bool = False) -> bool:
        limits, dispatcher = self._limits, self._dispatcher
        bytes_enough = limits.bytes_max
        too_few = dispatcher.backlog_records < limits.records_min
        if too_few and (bytes_enough is None or dispatcher.backlog_bytes < bytes_enough):
            return False  # without counting what is ready
        records = size = 0
        for lane in dispatcher.ready:
            part = 1 if isinstance(lane, SharedLane) else len(lane)
            records += part
            if records >= limits.records_min:
                return True
            if bytes_enough is not None:
                size += len(lane.head or "") + sum(
                    map(len, itertools.islice(lane.rest or (), max(0, part - 1)))
                )
                if size >= bytes_enough:
                    return True
        for chunk in self._waiting_chunks(with_blocked=with_blocked):
            records += len(chunk)
            if records >= limits.records_min:
                return True
            if bytes_enough is not None:
                size += sum(map(len, chunk.messages))
                if size >= bytes_enough:
                    return True
        return False

    def _waiting_chunks(self, *, with_blocked: bool) -> Iterator[Chunk]:
        slices = self.slices
        if slices is None:
            return
        yield from slices.waiting()
        if with_blocked:
            for assignment in slices.blocked:
                yield from itertools.islice(assignment.chunks, 1, None)


def _received_s(assignment: Assignment, message: Message, now_s: float) -> float:
    mark = assignment.mark_at(message.offset())
    return now_s if mark is None else mark.received_at_s
