"""What goes into a batch, when it goes, and what becomes of its lanes and chunks afterwards.

Pure; time comes in as an argument; the caller has the bookkeeping lock. A batch is collected from the ready
queue, and from the chunks that wait: until it is handed over nobody holds them, so a revoke, a stop or a
command finds them where they always are. All records of a batch then count as started: see `Lane.running` and
`Chunk.running`.

A chunk whose records all finish is done in one step. Where some end otherwise, its records get lanes first:
then it is as if they had had them all along.

Which record is to blame when a handler raises is unknown, so a raise spends no attempt while the batch has
more than one record: its lanes are passed again in batches half as large, until the culprit stands alone. Its
attempts are its own then, and nobody else is retried, skipped or dead-lettered for it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.lane import SharedLane
from ehkafka.workers.batches.due import Due
from ehkafka.workers.batches.share import Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message
    from ehkafka.workers.batches.share import BatchLimits, Part

# Narrowed lanes known before the first look for those that are gone.
_NARROWED_MIN = 1024


class _Filling:
    """A batch as it fills: what it has, and how much more it may have."""

    __slots__ = ("bytes_left", "has_chunks", "parts", "records_left", "went_behind_lanes")

    def __init__(self, limits: BatchLimits) -> None:
        self.parts: list[Part] = []
        self.records_left = limits.records_max
        self.bytes_left = float("inf") if limits.bytes_max is None else float(limits.bytes_max)
        # Whether chunks may come in.
        self.has_chunks = True
        # Some records of chunks have gone behind lanes instead.
        self.went_behind_lanes = False

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.records_left -= len(part.messages)
        if self.bytes_left != float("inf"):
            self.bytes_left -= sum(map(len, part.messages))


class BatchPlan:
    """Takes batches out of one dispatcher and gives their lanes and chunks back."""

    def __init__(self, dispatcher: Dispatcher, limits: BatchLimits) -> None:
        self._dispatcher = dispatcher
        self.limits = limits
        self.due = Due(dispatcher, limits)
        self._narrowed_max = _NARROWED_MIN

    def wait_s(self, now_s: float) -> float | None:
        """Return how long the next batch still waits; see `Due.wait_s`."""
        return self.due.wait_s(now_s)

    def take(self, now_s: float) -> list[Part]:
        """Take a batch: of each lane the head and those behind it, in order, and chunks. Empty: none may go.

        Lanes give one record in each round, so that a hot key cannot fill the batch while others are ready.
        """
        due = self.due
        if self.due.ready_wait_s(now_s) != 0.0:
            for chunk in due.late(now_s):
                self._dispatcher.end_early(chunk)
        must_go = due.must_go_now(now_s)
        filling = _Filling(self.limits)
        if due.is_chunk_first(now_s):
            self._add_chunks(filling, now_s)
        self._add_lanes(filling, now_s)
        self._add_chunks(filling, now_s)
        # Only now it is known how much of the chunks is free of lanes.
        if filling.went_behind_lanes and not must_go and not self._is_full(filling):
            self._put_back(filling.parts)
            return []
        return filling.parts

    def _is_full(self, filling: _Filling) -> bool:
        limits = self.limits
        return limits.records_max - filling.records_left >= limits.records_min or filling.bytes_left <= 0

    def _put_back(self, parts: list[Part]) -> None:
        for part in reversed(parts):
            if isinstance(part, Share):
                self._give_back([part.lane])
            else:
                del self.due.taken_s[part]
                assert self.due.slices is not None
                self.due.slices.give_back(part)

    def _add_chunks(self, filling: _Filling, now_s: float) -> None:
        """Take what waits in chunks, as far as there is room."""
        slices = self.due.slices
        if slices is None or not filling.has_chunks:
            return
        for _ in range(slices.turns()):
            if filling.records_left <= 0:
                return
            chunk = slices.take(filling.records_left, filling.bytes_left, 0 if filling.parts else 1)
            filling.went_behind_lanes |= slices.went_behind_lanes
            if chunk is not None:
                filling.add(chunk)
                self.due.taken_s[chunk] = now_s

    def _add_lanes(self, filling: _Filling, now_s: float) -> None:
        if filling.records_left <= 0:
            return
        lanes = self._begin_lanes(filling, now_s)
        shares, room_bytes = self._heads(lanes, filling)
        if len(shares) == len(lanes):
            _add_followers(shares, filling.records_left - len(shares), room_bytes)
        for share in shares:
            share.lane.running = len(share.messages)
            filling.add(share)

    def separate(self, parts: Iterable[Part]) -> list[Share]:
        """Give each key of a batch a share of its own, in order: its records do not all end alike."""
        shares: list[Share] = []
        place = 0
        for part in parts:
            if isinstance(part, Share):
                part.places = range(place, place + len(part.messages))
                shares.append(part)
            else:
                self.due.taken_s.pop(part, None)
                self._dispatcher.end_early(part)
                places = {id(message): number for number, message in enumerate(part.messages, place)}
                for lane in part.lanes:
                    begun = list(itertools.islice(lane.messages(), lane.running))
                    shares.append(Share(lane, begun, [places[id(message)] for message in begun]))
            place += len(part.messages)
        return shares

    def pass_over(self, shares: Iterable[Share]) -> None:
        """Move each lane on to the first record that has not ended. Its others return to it."""
        narrowed = self.due.narrowed
        for share in shares:
            lane = share.lane
            assert not share.ended_records or lane.head is share.messages[0]
            for _ in range(share.ended_records):
                lane.advance()
            if narrowed and share.ended_records:
                narrowed.pop(lane, None)
            lane.running = 1

    def hand_in(self, parts: Iterable[Part], now_s: float) -> None:
        """Settle the lanes of shares that were passed over, and chunks all of whose records have finished."""
        lanes: list[Any] = []
        for share in parts:
            if isinstance(share, Chunk):
                self.due.taken_s.pop(share, None)
                lanes.append(share)
                continue
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
            self.due.narrowed[share.lane] = records
        if len(self.due.narrowed) > self._narrowed_max:
            kept = {
                lane: limit
                for lane, limit in self.due.narrowed.items()
                if lane.head is not None and not lane.assignment.ended
            }
            self.due.narrowed = kept
            self._narrowed_max = max(_NARROWED_MIN, 2 * len(kept))

    def _begin_lanes(self, filling: _Filling, now_s: float) -> list[Lane]:
        """Lend as many ready lanes as a batch has room for, all narrowed alike."""
        first = self._begin(now_s)
        if first is None:
            return []
        narrowed, begin = self.due.narrowed, self._begin
        limit = narrowed.get(first)
        if limit is not None:
            if filling.parts:
                self._give_back([first])
                return []
            filling.has_chunks = False
            filling.records_left = min(filling.records_left, limit)
        lanes = [first]
        while len(lanes) < filling.records_left and (lane := begin(now_s)) is not None:
            if narrowed and narrowed.get(lane) != limit:
                self._give_back([lane])
                break
            lanes.append(lane)
        return lanes

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

    def _heads(self, lanes: list[Lane], filling: _Filling) -> tuple[list[Share], float]:
        """Return each lane's head, as far as there is room, and the room left; give the others back."""
        room_bytes = filling.bytes_left
        shares: list[Share] = []
        for lane in lanes:
            assert lane.head is not None
            size = len(lane.head)
            if (shares or filling.parts) and size > room_bytes:
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
