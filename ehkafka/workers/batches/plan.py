"""What goes into a batch, when it goes, and what becomes of its lanes afterwards.

Pure; time comes in as an argument; the caller has the bookkeeping lock. A batch is collected in the ready
queue: until it is handed over nobody holds its lanes, so a revoke, a stop or a command finds them where
they always are. All records of a batch then count as started: see `Lane.running`.

Which record is to blame when a handler raises is unknown, so a raise spends no attempt while the batch has
more than one record: its lanes are passed again in batches half as large, until the culprit stands alone. Its
attempts are its own then, and nobody else is retried, skipped or dead-lettered for it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.lanes.lane import SharedLane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message

# Narrowed lanes known before the first look for those that are gone.
_NARROWED_MIN = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch becomes, and how long it waits for that.

    It goes when `records_min` or `bytes_max` (of values) are there, or `wait_s_max` after its first record
    was received. A record above `bytes_max` is a batch by itself.
    """

    records_max: int
    records_min: int
    bytes_max: int | None
    wait_s_max: float
    unique_keys: bool = False


class Share:
    """One lane's part of a batch. Belongs to the worker that took it, until it is handed in."""

    __slots__ = ("attempt", "decision", "ended_records", "error", "lane", "messages", "skipped_records")

    def __init__(self, lane: Lane, messages: list[Message]) -> None:
        self.lane = lane
        self.messages = messages
        # Which attempt this is for the first record; for the others it is the first.
        self.attempt = lane.attempts + 1
        # How many of the first records have ended, and how many of these were skipped; then what the next
        # one failed with, or what is decided for it already.
        self.ended_records = 0
        self.skipped_records = 0
        self.error: BaseException | None = None
        self.decision: Decision | None = None

    @property
    def is_open(self) -> bool:
        """True when the lane's head, once those that ended are passed, needs a decision."""
        return self.error is not None or self.decision is not None


class BatchPlan:
    """Takes batches out of one dispatcher and gives their lanes back."""

    def __init__(self, dispatcher: Dispatcher, limits: BatchLimits) -> None:
        self._dispatcher = dispatcher
        self.limits = limits
        # Nothing more is received, or everybody is to leave: wait for nothing. Set once.
        self.is_hurried = False
        # Lane → records that a batch with it may have, since one with its head raised.
        self._narrowed: dict[Lane, int] = {}
        self._narrowed_max = _NARROWED_MIN

    def wait_s(self, now_s: float) -> float | None:
        """Return how long the next batch still waits; 0: it is to be taken now. None: nothing is ready."""
        ready = self._dispatcher.ready
        if not ready:
            return None
        first = next((lane for lane in ready if lane.head is not None), None)
        if first is None or self._must_go(first) or self._is_enough():
            return 0.0  # where all are cut lanes, taking them frees them
        assert first.head is not None
        mark = first.assignment.mark_at(first.head.offset())
        received_s = now_s if mark is None else mark.received_at_s
        return max(0.0, received_s + self.limits.wait_s_max - now_s)

    def take(self, now_s: float) -> list[Share]:
        """Take a batch: of each lane the head and those behind it, in order. Empty when none may start.

        Lanes give one record in each round, so that a hot key cannot fill the batch while others are ready.
        """
        lanes, records_max = self._begin_lanes(now_s)
        shares, room_bytes = self._heads(lanes)
        if not self.limits.unique_keys and len(shares) == len(lanes):
            _add_followers(shares, records_max - len(shares), room_bytes)
        for share in shares:
            share.lane.running = len(share.messages)
        return shares

    def pass_over(self, shares: Iterable[Share]) -> None:
        """Move each lane on to the first record that has not ended. Its others return to it."""
        narrowed = self._narrowed
        for share in shares:
            lane = share.lane
            assert not share.ended_records or lane.head is share.messages[0]
            for _ in range(share.ended_records):
                lane.advance()
            if narrowed and share.ended_records:
                narrowed.pop(lane, None)
            lane.running = 1

    def hand_in(self, shares: Iterable[Share], now_s: float) -> None:
        """Settle the lanes of shares that were passed over."""
        lanes = []
        for share in shares:
            lane = share.lane
            lane.decision = share.decision
            if share.skipped_records and not lane.assignment.ended:
                # `settle` counts all that the lane has passed as finished.
                for counted in (lane.assignment, self._dispatcher):
                    counted.finished_records -= share.skipped_records
                    counted.skipped_records += share.skipped_records
            lanes.append(lane)
        self._dispatcher.settle(lanes, now_s)

    def narrow(self, shares: Iterable[Share], records: int) -> None:
        """Pass the lanes of a batch that raised again, in batches of so many records at most."""
        for share in shares:
            self._narrowed[share.lane] = records
        if len(self._narrowed) > self._narrowed_max:
            kept = {
                lane: limit
                for lane, limit in self._narrowed.items()
                if lane.head is not None and not lane.assignment.ended
            }
            self._narrowed = kept
            self._narrowed_max = max(_NARROWED_MIN, 2 * len(kept))

    def _must_go(self, first: Lane) -> bool:
        # A partition that is being drained gets nothing more and is waited for; what came back from a
        # batch that raised has waited already.
        return (
            self.is_hurried
            or first in self._narrowed
            or any(assignment.halted for assignment in self._dispatcher.assignments.values())
        )

    def _is_enough(self) -> bool:
        limits, dispatcher = self.limits, self._dispatcher
        bytes_enough = limits.bytes_max
        too_few = dispatcher.backlog_records < limits.records_min
        if too_few and (bytes_enough is None or dispatcher.backlog_bytes < bytes_enough):
            return False  # without counting what is ready
        records = size = 0
        for lane in dispatcher.ready:
            part = 1 if limits.unique_keys or isinstance(lane, SharedLane) else len(lane)
            records += part
            if records >= limits.records_min:
                return True
            if bytes_enough is not None:
                size += len(lane.head or "") + sum(map(len, itertools.islice(lane.rest or (), part - 1)))
                if size >= bytes_enough:
                    return True
        return False

    def _begin_lanes(self, now_s: float) -> tuple[list[Lane], int]:
        """Lend as many ready lanes as a batch may have, all narrowed alike; and how many records it may."""
        first = self._begin(now_s)
        if first is None:
            return [], 0
        narrowed, begin = self._narrowed, self._begin
        limit = narrowed.get(first)
        records_max = min(self.limits.records_max, limit or self.limits.records_max)
        lanes = [first]
        while len(lanes) < records_max and (lane := begin(now_s)) is not None:
            if narrowed and narrowed.get(lane) != limit:
                self._give_back([lane])
                break
            lanes.append(lane)
        return lanes, records_max

    def _begin(self, now_s: float) -> Lane | None:
        """Lend the next ready lane whose head may start; those that were cut are settled on the way."""
        while (lane := self._dispatcher.begin()) is not None:
            if lane.may_run_head():
                return lane
            self._dispatcher.settle([lane], now_s)
        return None

    def _give_back(self, lanes: list[Lane]) -> None:
        for lane in reversed(lanes):
            lane.running = 0
            self._dispatcher.ready.appendleft(lane)

    def _heads(self, lanes: list[Lane]) -> tuple[list[Share], float]:
        """Return each lane's head, as far as `bytes_max` permits, and the room left; give the others back."""
        room_bytes = float("inf") if self.limits.bytes_max is None else float(self.limits.bytes_max)
        shares: list[Share] = []
        for lane in lanes:
            assert lane.head is not None
            size = len(lane.head)
            if shares and size > room_bytes:
                self._give_back(lanes[len(shares) :])
                break
            room_bytes -= size
            shares.append(Share(lane, [lane.head]))
        return shares, room_bytes


def _add_followers(shares: list[Share], free_records: int, room_bytes: float) -> None:
    """Add what is behind the heads, one of each lane in turn, until the batch is full or nothing is left."""
    turns = [(share, _followers(share.lane)) for share in shares if share.lane.rest]
    while turns:
        left = []
        for share, followers in turns:
            message = next(followers, None)
            if message is None:
                continue
            size = len(message)
            if not free_records or size > room_bytes:
                return
            share.messages.append(message)
            free_records -= 1
            room_bytes -= size
            left.append((share, followers))
        turns = left


def _followers(lane: Lane) -> Iterator[Message]:
    """Yield the records behind the head that may start together with it."""
    if isinstance(lane, SharedLane):
        return  # the next one may be another partition's
    assignment = lane.assignment
    for message in lane.rest or ():
        if assignment.halted and not assignment.may_start(message):
            return
        yield message
