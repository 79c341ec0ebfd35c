"""One partition from its assignment to its end: received and unfinished records, and the commit position.

Pure; all of it belongs to the lock's holder. Two values of an epoch are read without the lock, by consumers:
`ended` and `context`.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from ehkafka.lanes.finished import Extent, FinishedBefore
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.received_batches import ReceivedBatch, ReceivedBatches
from ehkafka.lanes.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from ehkafka.lanes.inbox import Entry, Owner
    from ehkafka.lanes.unread import UnreadRun
    from ehkafka.records import Message, TopicPartition

TIMESTAMP_NOT_AVAILABLE = 0
# Enough for what ends between two commits that follow the results.
ENDED_LATELY_MAX = 512


class Epoch:
    """One assignment of a partition.

    `order` has the records that were routed, oldest first, and `done` the identities of those messages in
    it that are finished. What the commit position has passed leaves both, so they are as long as the backlog.
    `runs` has the unfinished records whose keys are unread, behind all others: these finish in order.
    Restored and skipped records never enter them: the commit position passes these like offsets without a
    record.
    """

    def __init__(
        self,
        partition: TopicPartition,
        number: int,
        owners: dict[Hashable, Owner],
        finished_before: FinishedBefore | None = None,
        total: Tally | None = None,
    ) -> None:
        """Begin with the keys that calls of earlier epochs still keep here.

        `owners` is the handler's own map where keys are as wide as the handler. `finished_before` is what an
        earlier epoch finished above its commit. `total` counts for the handler what the epoch counts.
        """
        self.partition = partition
        self.number = number
        # Where each key's unfinished records are. Dead owners are purged as the backlog shrinks.
        self.owners = owners
        self.tally = Tally(total)
        self.received = Received(finished_before)
        self.order: deque[Entry] = deque()
        self.done: set[int] = set()
        self.runs: deque[UnreadRun] = deque()
        # The latest records that finished, for commits that look at no more; whether others finished, too.
        self.ended_lately: deque[Message] = deque(maxlen=ENDED_LATELY_MAX)
        self.is_extent_due = True
        # The highest offset that finished with its key unread, perhaps above a record that waits.
        self.unread_finished = -1
        # The highest offset that may still start while the partition drains; None while it does not.
        self.drain_limit: int | None = None
        # Results count for nothing any more. Consumers read it without the lock.
        self.ended = False
        # What the handler keeps for this assignment (a class handler: its instance). Set before any record
        # starts.
        self.context: object = None

    def add(self, entries: Sequence[Entry], size: int) -> None:
        """Count records, ascending and of so many bytes in all, into the backlog."""
        self.order.extend(entries)
        self.tally.receive(len(entries), size)

    def note_finished(self, entries: Iterable[Entry]) -> None:
        """Let the commit position pass routed records. The caller counts them."""
        order = self.order
        for entry in entries:
            message = entry[MESSAGE]
            if order and order[0][MESSAGE] is message:
                order.popleft()  # the commit position passes it at once
            else:
                self.done.add(id(message))
                self.ended_lately.append(message)

    def note_unread(self, finished: Sequence[Message]) -> None:
        """Take in what finished with its key unread, perhaps above an older record that is unfinished."""
        if self.order:
            self.ended_lately.extend(finished)
            self.unread_finished = finished[-1].offset()

    def pass_finished(self) -> None:
        """Forget what lies below the commit position."""
        order, done = self.order, self.done
        if not done:
            return  # what is finished and first has left `order` at once
        passed: list[int] = []
        for entry in order:
            if (place := id(entry[MESSAGE])) not in done:
                break
            passed.append(place)
        for _ in passed:
            order.popleft()
        done.difference_update(passed)

    def watermark(self) -> int | None:
        """Next_offset up to which every received record has a result; None before the first record."""
        oldest = self.oldest()
        return self.received.next_offset if oldest is None else oldest[MESSAGE].offset()

    def oldest(self) -> Entry | None:
        """Return the oldest unfinished record."""
        self.pass_finished()
        return next(self.unfinished(), None)

    def unfinished(self) -> Iterator[Entry]:
        """Yield the records without a result, oldest first, those included that were returned."""
        done = self.done
        known = (entry for entry in self.order if id(entry[MESSAGE]) not in done)
        return chain(known, *(run.entries() for run in self.runs)) if self.runs else known

    def copied(self) -> tuple[list[Entry], set[int], list[Message]]:
        """Return what was routed above the commit position, and by identity which messages are finished.

        Third, the messages of those unfinished records whose keys are unread.
        """
        self.pass_finished()
        return list(self.order), self.done.copy(), [one for run in self.runs for one in run.left()]

    @property
    def ends_unnoted(self) -> bool:
        """Whether more is finished above the commit position than `take_ended` returned and will return.

        Then only `extent` tells what.
        """
        return self.is_extent_due or self.received.is_refuted

    def take_ended(self) -> list[int]:
        """Return the offsets that finished since the last call, in no order, as far as kept."""
        ended, self.ended_lately = self.ended_lately, deque(maxlen=ENDED_LATELY_MAX)
        self.is_extent_due |= len(ended) >= ENDED_LATELY_MAX
        return [message.offset() for message in ended]

    def extent(self) -> Extent | None:
        """Return what tells which records above the commit position are finished. O(backlog)."""
        next_offset = self.watermark()
        received_next = self.received.next_offset
        if next_offset is None or received_next is None:
            return None
        return Extent(
            next_offset,
            received_next,
            received_next,
            [entry[MESSAGE] for entry in self.unfinished()],
            self.received.finished_before,
        )

    def highest_started(self, waiting: Iterable[Entry]) -> int:
        """Return the highest offset that has started, where `waiting` has not; -1 if none has."""
        unstarted = {id(entry[MESSAGE]) for entry in waiting}
        for entry in reversed(self.order):
            if id(entry[MESSAGE]) not in unstarted:
                return max(self.unread_finished, entry[MESSAGE].offset())
        # Nothing is left of what lies below the first record that waits, so all of that has started.
        below = self.order[0][MESSAGE].offset() if self.order else self.received.next_offset
        return max(self.unread_finished, -1 if below is None else below - 1)

    def may_start(self, entry: Entry) -> bool:
        """Tell whether a record that waits may still start."""
        if self.ended:
            return False
        return self.drain_limit is None or entry[MESSAGE].offset() <= self.drain_limit


class Received:
    """How far an epoch has received, and what is remembered of its batches."""

    def __init__(self, finished_before: FinishedBefore | None = None) -> None:
        self.next_offset: int | None = None
        # The offset of the last record, which may lie further below than the one before `next_offset`.
        self.last_offset = -1
        # None once all of it was received.
        self.finished_before = finished_before
        # The log has other records now than those that an earlier epoch finished.
        self.is_refuted = False
        self.batches = ReceivedBatches()
        # The latest record below the committed position whose timestamp is known: (offset, ms).
        self.witness: tuple[int, int] | None = None

    def note(self, messages: Sequence[Message], now_s: float) -> None:
        """Take in a batch of the partition, ascending."""
        last = messages[-1]
        self.last_offset = last.offset()
        self.next_offset = self.last_offset + 1
        epoch = last.leader_epoch()
        # A commit must carry the epoch of the very record before it: a newer one would hide a truncated
        # log, an older one would report a truncation that never was.
        for message, following in pairwise(messages) if messages[0].leader_epoch() != epoch else ():
            if message.leader_epoch() != following.leader_epoch():
                self.batches.add(ReceivedBatch(message.offset(), now_s, message.leader_epoch()))
        self.batches.add(ReceivedBatch(self.last_offset, now_s, epoch, _timestamp_ms(last)))

    def fresh(self, messages: Sequence[Message]) -> list[int] | None:
        """Return which messages, by their place, no earlier epoch finished; None: all of them.

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
        """Continue at a later offset: the log holds no record from here to there.

        `leader_epoch` is that of the offset before; where it is not known, a commit there carries none.
        """
        assert self.next_offset is None or next_offset >= self.next_offset
        self.next_offset = next_offset
        self.batches.add(ReceivedBatch(next_offset - 1, now_s, leader_epoch))

    def unread_below(self, offset: int) -> int:
        """Return how many offsets below this one are not received, nor finished by an earlier epoch."""
        if self.next_offset is None or self.next_offset >= offset:
            return 0
        before = () if self.finished_before is None else self.finished_before.above(self.next_offset)
        finished = sum(max(0, min(end, offset) - start) for start, end in before)
        return offset - self.next_offset - finished

    def finished_leader_epoch(self) -> int | None:
        """Return the newest leader epoch among what has finished, where known."""
        before = self.finished_before
        if before is not None and next(before.above(self.next_offset or 0), None) is not None:
            return before.leader_epoch
        return None if (last := self.batches.last) is None else last.leader_epoch

    def trim_batches(self, next_offset: int) -> None:
        """Forget batches wholly below the offset before `next_offset`, except the last one's timestamp."""
        for batch in (*self.batches.take_below(next_offset - 1), *islice(self.batches, 1)):
            if batch.last_offset < next_offset and batch.timestamp_ms is not None:
                self.witness = batch.last_offset, batch.timestamp_ms


def _timestamp_ms(message: Message) -> int | None:
    kind, timestamp_ms = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
