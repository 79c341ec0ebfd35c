"""One epoch of one partition: its lanes, what is received and unfinished, and the watermark.

Pure. The watermark is not tracked per record: it is computed from what is unfinished, when a commit is
due. Everything here is written under the bookkeeping lock, but for `halted` and `ended`, which holders
of lanes read without it.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.finished import Extent, FinishedBefore
from ehkafka.lanes.lane import Lane, SharedLane
from ehkafka.lanes.marks import Mark, Marks

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterator, Sequence

    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import AfterDeadLetter
    from ehkafka.records import Message, TopicPartition

TIMESTAMP_NOT_AVAILABLE = 0
# Enough for what ends between two commits that follow the outcomes.
ENDED_LATELY_MAX = 512


class Assignment:
    """A partition from its assign to its revoke.

    `halted` asks holders to start nothing above `drain_limit`. A holder sets `lane.running` first and
    reads `halted` after; who halts sets `halted` first and reads `running` after, and never takes it
    back. So either the holder sees the halt, or the lane is seen to run: no record starts unnoticed.
    """

    def __init__(
        self,
        partition: TopicPartition,
        epoch: int,
        *,
        lanes: dict[Hashable, Lane] | None = None,
        after_letter: dict[Hashable, AfterDeadLetter] | None = None,
        finished_before: FinishedBefore | None = None,
        opened: bool = True,
    ) -> None:
        """`lanes` and `after_letter` are the handler's own maps when its scope is the handler.

        `finished_before` is what an earlier epoch finished above its commit: it is received
        and at once finished. With `opened=False` no record starts before `Dispatcher.open`.
        """
        self.partition = partition
        self.epoch = epoch
        self.shared = lanes is not None
        self.lanes: dict[Hashable, Lane] = {} if lanes is None else lanes
        # None once all of it was received. Poll thread, under the lock.
        self.finished_before = finished_before
        self.restored_records = 0
        # The log has other records now than those that an earlier epoch finished.
        self.is_refuted = False
        self.opened = opened
        # Lanes that became ready before the partition was opened.
        self.unopened: list[Lane] = []
        self.halted = False
        self.ended = False
        # The highest offset that may still start once `halted`; -1: none.
        self.drain_limit = -1
        # The lowest offset that was returned; the watermark stays below it for ever.
        self.returned_from: int | None = None
        self.returned_records = 0
        self.returned_bytes = 0
        # What was returned, so that the rest above the watermark is known to be finished.
        self.returned_offsets: list[int] = []
        self.received_next: int | None = None
        # The offset of the last record, which may lie further below than the one before `received_next`.
        self.last_received = -1
        self.received_records = 0
        self.finished_records = 0
        self.skipped_records = 0
        self.dead_lettered_records = 0
        self.backlog_records = 0
        self.backlog_bytes = 0
        self.parked_records = 0
        self.parked_bytes = 0
        # What the next records of a key do after a dead letter; with lanes as wide as the handler, the
        # handler's own map. Only `hold_key` and `divert_key` are in it.
        self.after_letter: dict[Hashable, AfterDeadLetter] = {} if after_letter is None else after_letter
        # What has no lane yet, in offset order behind what the lanes hold. Always empty without express.
        self.chunks: deque[Chunk] = deque()
        # Chunks that run side by side, in the order in which they were made; and which of them has a key.
        self.streams: dict[Chunk, None] = {}
        self.owners: dict[Hashable, Chunk] = {}
        self.marks = Marks()
        # Offsets that ended in lanes since they were taken last; holders append, without the lock. The oldest
        # are left to the next `extent`.
        self.ended_lately: deque[int] = deque(maxlen=ENDED_LATELY_MAX)
        # Whether more may have finished than was ever among those: in chunks, or too old.
        self.is_extent_due = True
        # The latest record below the committed position whose timestamp is known: (offset, ms).
        self.anchor: tuple[int, int] | None = None
        # What the handler keeps for this assignment (a class handler: its instance). Set before `opened`.
        self.context: object = None

    def unread_below(self, offset: int) -> int:
        """Return how many offsets below this one are not received, nor finished by an earlier epoch."""
        if self.received_next is None or self.received_next >= offset:
            return 0
        before = () if self.finished_before is None else self.finished_before.above(self.received_next)
        finished = sum(max(0, min(end, offset) - start) for start, end in before)
        return offset - self.received_next - finished

    @property
    def unfinished_records(self) -> int:
        """How many records were received and have no outcome, parked ones included."""
        return self.backlog_records + self.parked_records

    @property
    def ends_unnoted(self) -> bool:
        """Whether more may have finished than was noted: now, in the chunk that is out, or before."""
        return self.is_extent_due or bool(self.streams) or (bool(self.chunks) and self.chunks[0].is_out)

    def note_received(self, messages: Sequence[Message], now_s: float) -> None:
        """Count a batch, ascending and of this partition. Caller has the lock."""
        last = messages[-1]
        self.last_received = last.offset()
        self.received_next = self.last_received + 1
        self.received_records += len(messages)
        epoch = last.leader_epoch()
        if messages[0].leader_epoch() != epoch:
            self._mark_epoch_changes(messages, now_s)
        self.marks.add(Mark(self.received_next - 1, now_s, epoch, _timestamp_ms(last)))

    def fresh(self, messages: Sequence[Message]) -> list[int] | None:
        """Return which messages, by their place, no earlier epoch finished; None: all. Caller has the lock.

        To be asked once for each batch, because it forgets what cannot come any more.
        """
        before = self.finished_before
        if before is None or not messages:
            return None
        fresh = before.fresh(messages)
        self.is_refuted |= before.is_refuted(messages)
        if before.is_passed(messages):
            self.finished_before = None
        return fresh

    def skip_to(self, next_offset: int, now_s: float, leader_epoch: int | None = None) -> None:
        """Go on at a later offset: the log holds no record from here to there. Caller has the lock.

        The watermark passes it as it passes any hole, once what was received below it has an outcome.
        `leader_epoch` is of the offset before; behind a gap it is not known, so a commit there carries none.
        """
        assert self.received_next is None or next_offset >= self.received_next
        self.received_next = next_offset
        self.marks.add(Mark(next_offset - 1, now_s, leader_epoch))

    def _mark_epoch_changes(self, messages: Sequence[Message], now_s: float) -> None:
        # A commit must carry the epoch of the very record before it: a newer one would hide a truncated
        # log, an older one would report a truncation that never was.
        for message, following in itertools.pairwise(messages):
            if message.leader_epoch() != following.leader_epoch():
                self.marks.add(Mark(message.offset(), now_s, message.leader_epoch()))

    def unfinished(self) -> Iterator[Message]:
        """Yield the records without an outcome, in no order across lanes. Caller has the lock."""
        for lane in self.lanes.values():
            if isinstance(lane, SharedLane):
                yield from lane.messages_of(self)
            else:
                yield from lane.messages()
        for chunk in self.all_chunks():
            yield from chunk.unfinished()

    @property
    def has_chunks(self) -> bool:
        """Whether any record here is in a chunk."""
        return bool(self.chunks or self.streams)

    def all_chunks(self) -> Iterator[Chunk]:
        """Yield what runs side by side, and what waits. Caller has the lock."""
        return itertools.chain(self.streams, self.chunks)

    def first_chunk(self) -> Chunk | None:
        """Return the chunk with the lowest unfinished record; None without one. Caller has the lock."""
        if not self.streams:
            return self.chunks[0] if self.chunks else None
        return min(self.all_chunks(), key=_first_unfinished_offset)

    def watermark(self) -> int | None:
        """Next_offset up to which every received record has an outcome; None before the first record.

        O(lanes), or O(backlog) where lanes are shared by partitions. Caller has the lock; holders may
        advance meanwhile, which can only make the answer too low.
        """
        if self.received_next is None:
            return None
        lowest = self.received_next if self.returned_from is None else self.returned_from
        for stream in self.streams:
            lowest = min(lowest, stream.first_unfinished().offset())
        if self.chunks:
            lowest = min(lowest, self.chunks[0].first_unfinished().offset())
        if self.shared:
            unfinished = min((message.offset() for message in self.unfinished()), default=lowest)
            return min(unfinished, lowest)
        # A lane that was just run empty has no head, but may have got a record behind it since.
        heads = (
            head if (head := lane.head) is not None else lane.rest[0] if lane.rest else None
            for lane in self.lanes.values()
        )
        unfinished = min((head.offset() for head in heads if head is not None), default=lowest)
        return min(unfinished, lowest)

    def take_ended(self) -> list[int]:
        """Return the offsets that ended in lanes since the last call, in no order, as far as kept."""
        ended = self.ended_lately
        taken = [ended.popleft() for _ in range(len(ended))]
        # Holders append meanwhile: if that pushed anything out, so many have come since.
        self.is_extent_due |= len(taken) + len(ended) >= ENDED_LATELY_MAX
        return taken

    def finished_leader_epoch(self) -> int | None:
        """Return the newest leader epoch among what has finished, where known."""
        before = self.finished_before
        if before is not None and next(before.above(self.received_next or 0), None) is not None:
            return before.leader_epoch
        return None if (last := self.marks.last) is None else last.leader_epoch

    def extent(self) -> Extent | None:
        """Take what tells which records above the watermark are finished. O(backlog). Caller has the lock."""
        if self.received_next is None:
            return None
        # In this order: what ends in between may raise the watermark, never hide what it stops at.
        unfinished = self._in_lanes()
        for stream in self.streams:  # one by one: others have finished in between
            unfinished += stream.unfinished()
        known_to = self.chunks[0].first_unfinished().offset() if self.chunks else self.received_next
        next_offset = self.watermark()
        assert next_offset is not None
        return Extent(
            next_offset,
            self.received_next,
            known_to,
            unfinished,
            self.returned_offsets,
            self.finished_before,
            None if (last := self.marks.last) is None else last.leader_epoch,
        )

    def _in_lanes(self) -> list[Message]:
        if self.shared:
            return list(self.unfinished())
        found: list[Message] = []
        for lane in self.lanes.values():
            if lane.rest:
                found += lane.rest
            # After its followers: a record on its way is seen twice rather than not at all.
            if (head := lane.head) is not None:
                found.append(head)
        return found

    def mark_at(self, offset: int) -> Mark | None:
        """Return the batch that brought this offset, None when it is no longer known."""
        return self.marks.at(offset)

    def trim_marks(self, next_offset: int) -> None:
        """Forget batches wholly below the offset before `next_offset`, but for the last one's timestamp."""
        for mark in self.marks.take_below(next_offset - 1):
            self._note_anchor(mark)
        first = self.marks.first
        if first is not None and first.last_offset < next_offset:
            self._note_anchor(first)

    def _note_anchor(self, mark: Mark) -> None:
        if mark.timestamp_ms is not None:
            self.anchor = mark.last_offset, mark.timestamp_ms

    def lanes_here(self) -> Iterator[Lane]:
        """Lanes whose head is of this partition. Caller has the lock."""
        return (lane for lane in self.lanes.values() if lane.assignment is self)

    def may_start(self, message: Message | None) -> bool:
        """Tell a holder that saw `halted` whether its next record may start all the same. Needs no lock."""
        return message is not None and not self.ended and message.offset() <= self.drain_limit

    def records_in(self, lane: Lane) -> int:
        """Return how many unfinished records of this partition a lane of its map has. Caller has the lock."""
        if isinstance(lane, SharedLane):
            return sum(1 for _ in lane.messages_of(self))
        return len(lane)

    def highest_started(self, diverting: Container[Lane] = ()) -> int:
        """Return an offset that no started record is above, as low as is known; -1 if none started.

        The head of a lane in `diverting` counts as started: its dead letter is on its way.
        Not tracked per record: it is the end of what was received, less what waits there unstarted.
        O(backlog). Caller has the lock.
        """
        if self.received_next is None:
            return -1
        started = {
            message.offset()
            for lane in self.lanes_here()
            if (lane.running or lane in diverting) and lane.head is not None
            for message in itertools.islice(lane.messages(), lane.running or 1)
        }
        waiting = {message.offset() for message in self.unfinished()} - started
        highest = self.last_received
        while highest in waiting:
            highest -= 1
        return highest

    def return_lane(self, lane: Lane, above: int) -> list[Message]:
        """Take a lane's records of this partition above an offset. Caller has the lock, and counts them."""
        taken = lane.cut(above, self)
        if taken:
            self.note_returned(taken)
        return taken

    def note_returned(self, messages: Sequence[Message]) -> None:
        """Count records that get no outcome in this epoch; the watermark stays below. Caller has the lock."""
        self.returned_records += len(messages)
        self.returned_bytes += sum(sizes_of(messages))
        offsets = [message.offset() for message in messages]
        self.returned_offsets += offsets
        lowest = min(offsets)
        if self.returned_from is None or lowest < self.returned_from:
            self.returned_from = lowest

    def has_runnable(self, waits: Callable[[Lane], bool]) -> bool:
        """Tell whether any record here runs or could run without an outside event. Caller has the lock."""
        return self.has_chunks or any(
            lane.running or not waits(lane) for lane in self.lanes.values() if self._is_in(lane)
        )

    def _is_in(self, lane: Lane) -> bool:
        if isinstance(lane, SharedLane):
            held = lane.running > 0 and lane.assignment is self  # perhaps finished, not handed in yet
            return held or next(lane.messages_of(self), None) is not None
        return lane.running > 0 or len(lane) > 0


def _first_unfinished_offset(chunk: Chunk) -> int:
    return chunk.first_unfinished().offset()


def _timestamp_ms(message: Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
