"""Writes into a commit which records above it are finished: how much detail, in how many bytes.

On the poll thread, at the commit tick and when an epoch ends. Knows neither the consumer nor the broker; the
committer tells it of a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.endpoint.properties.limits import COMMIT_METADATA_BYTES_MAX
from ehkafka.events import ProgressTruncated
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts, encode
from ehkafka.progress.ranges import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ehkafka.events import Event
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.finished import Extent
    from ehkafka.progress.metadata import MetadataText
    from ehkafka.records import TopicPartition

    # Epochs that share a lock, and what takes it.
    Locked = tuple[Callable[[], AbstractContextManager[object]], Sequence[Epoch]]

# Kafka's default of `offset.metadata.max.bytes` is 4096, and Kafka 4.2 refuses metadata of that very length.
KAFKA_METADATA_BYTES_MAX = 4095
EVENT_HUBS_METADATA_BYTES_MAX = COMMIT_METADATA_BYTES_MAX - 1
# What is not even taken in so few bytes is not worth another try.
METADATA_BYTES_MIN = 64
# What looking through the unfinished records (50 000 take up to 60 ms) may take of the time from one look to
# the next; and what commits without a look, which follow the results, may take of theirs.
SAMPLE_SHARE = 0.02
COMMIT_SHARE = 0.05


def metadata_bytes_max(*, is_event_hubs: bool) -> int:
    """Return how long a commit's metadata may be: just below the service's limit."""
    return EVENT_HUBS_METADATA_BYTES_MAX if is_event_hubs else KAFKA_METADATA_BYTES_MAX


class RawSample(NamedTuple):
    """The records that have ended in an epoch, as one look finds them; see `Sample`."""

    epoch: Epoch
    next_offset: int
    extent: Extent | None
    ended: list[int]
    newest_epoch: int | None


class Sample(NamedTuple):
    """How far an epoch has come. `extent` is None where no detail is wanted.

    `ended` are offsets that have ended since the last look, in no order, and `newest_epoch` the newest
    leader epoch among what is finished.
    """

    epoch: Epoch
    next_offset: int
    leader_epoch: int | None
    witness: tuple[int, int] | None
    extent: Extent | None
    ended: list[int]
    newest_epoch: int | None


class _Quiet(dict["TopicPartition", "tuple[Epoch, Position]"]):
    """By partition. `is_all`: there are no others, so that only a record that ends changes a position."""

    is_all = False


class ProgressSaver:
    """Turns epochs into positions. One for an app."""

    def __init__(
        self,
        bytes_max: int = 0,
        emit: Callable[[Event], None] | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """With `bytes_max` 0 commits carry no metadata."""
        self.bytes_max = bytes_max
        self._emit = emit
        self._clock = clock
        self._began_s = self._not_before_s = float("-inf")
        # When the next commit that follows the results may be made.
        self.early_at_s = float("-inf")
        # When the detail that the last tick went without can be had.
        self.detail_at_s = float("inf")
        # What was said last of each epoch; what the last look found, or the epoch began with.
        self._last: dict[tuple[TopicPartition, int], Position] = {}
        self._known: dict[tuple[TopicPartition, int], Known] = {}
        # Epochs all of whose records were finished at the last look, by partition, with their positions.
        self._quiet = _Quiet()
        # A mirror keeps the ranges, whatever fits into the commit.
        self.is_mirrored = False
        # The lowest offset of each epoch that waits for its outputs; set once, where handlers have any.
        self.lowest: Callable[[], Mapping[Epoch, int]] = dict
        # Epochs whose detail was dropped at the last look.
        self._truncated: set[tuple[TopicPartition, int]] = set()
        # What each commit of a partition carries on, in addition to its own witness.
        self._facts: dict[TopicPartition, LogFacts] = {}

    def begin(self, epoch: Epoch, stored: Position | None) -> None:
        """Take what an epoch begins with: what was restored is written until a look has found more.

        `stored` is what the group has, None if nothing.
        """
        place = epoch.partition, epoch.number
        self.has_moved()
        if epoch.received.finished_before is not None:
            before = epoch.received.finished_before
            self._known[place] = Known(tuple(before.above(-1)), before.leader_epoch)
        if stored is not None:
            self._last[place] = stored

    def carry(self, partition: TopicPartition, facts: LogFacts) -> None:
        """Put these facts into each commit of a partition from now on, until it is forgotten.

        With an id, their witness counts until a record of this epoch can be one.
        """
        self._facts[partition] = facts
        self._quiet.pop(partition, None)
        self.has_moved()

    @property
    def is_at_rest(self) -> bool:
        """Whether no position changes before a record ends, or an offset without a record is passed."""
        return self._quiet.is_all

    def has_moved(self) -> None:
        """Hear that a position may have changed though no record has ended."""
        self._quiet.is_all = False

    def carried(self, partition: TopicPartition) -> LogFacts:
        """Return the facts that a partition's commits carry."""
        return self._facts.get(partition, LogFacts())

    def positions(self, groups: Sequence[Locked], *, in_full: bool = False) -> dict[TopicPartition, Position]:
        """Return what could be committed now. Takes each group's lock once; O(backlog) at most.

        Unless `in_full`, finished ranges may be left out where it takes too long to find them, and so may
        offsets without a record, as the marker of a transaction has: no result names them.
        """
        looks = self.begin_tick() or in_full
        # Outputs may wait though nothing of their epoch moves.
        quiet = {} if in_full or self.lowest is not dict else self._unchanged(groups)
        all_found: list[list[RawSample]] = []
        for lock, epochs in groups:
            with lock():
                for one in epochs:
                    one.is_extent_due |= in_full
                inspected = [self.inspect(one, fully=looks) for one in epochs if one.partition not in quiet]
            all_found.append([found for found in inspected if found is not None])
        # In this order: an output is put before its record ends, so of what has ended by now, all that does
        # not wait here is acknowledged.
        lowest = self.lowest()
        samples: list[Sample] = []
        for (lock, _), its in zip(groups, all_found, strict=True):
            with lock():
                samples += [self.bounded(found, lowest.get(found.epoch)) for found in its]
        positions = {sample.epoch.partition: self.position(sample) for sample in samples}
        self.end_tick(looked=looks)
        still = {partition: self._quiet[partition] for partition in quiet}
        for epoch, *_ in samples:
            position = positions[epoch.partition]
            if position.next_offset == epoch.received.next_offset:
                still[epoch.partition] = epoch, position
        self._quiet = _Quiet(still)
        self._quiet.is_all = len(still) == len(quiet) + len(positions)
        return quiet | positions

    def _unchanged(self, groups: Sequence[Locked]) -> dict[TopicPartition, Position]:
        """Return the positions of epochs that have received nothing since all of them was finished."""
        found = ((one, self._quiet.get(one.partition)) for _, epochs in groups for one in epochs)
        return {
            one.partition: seen[1]
            for one, seen in found
            if seen is not None and seen[0] is one and seen[1].next_offset == one.received.next_offset
        }

    def begin_tick(self) -> bool:
        """Return whether there is time to look what is finished.

        Else what the last look has found is said again, with what has ended since.
        """
        self._began_s = self._clock()
        return self._began_s >= self._not_before_s

    def end_tick(self, *, looked: bool) -> None:
        """Note what it took."""
        now_s = self._clock()
        took_s = now_s - self._began_s
        if looked:
            self.detail_at_s = float("inf")
            self._not_before_s = now_s + took_s / SAMPLE_SHARE
        else:
            self.detail_at_s = self._not_before_s
            self.early_at_s = now_s + took_s / COMMIT_SHARE

    def times(self) -> dict[str, float]:
        """Return when there may be detail again, as the ledger's `plan` takes it."""
        return {"detail_at_s": self.detail_at_s, "early_at_s": self.early_at_s}

    def sample(self, epoch: Epoch, *, fully: bool = True) -> Sample | None:
        """Look at how far one epoch has come; None while it has no position. Caller has the lock."""
        found = self.inspect(epoch, fully=fully)
        return None if found is None else self.bounded(found, self.lowest().get(epoch))

    def last_sample(self, epoch: Epoch) -> Sample | None:
        """Look in full, as `positions` does, for an epoch's last position. Caller has the lock."""
        epoch.is_extent_due = True
        return self.sample(epoch)

    def inspect(self, epoch: Epoch, *, fully: bool) -> RawSample | None:
        """Look at what has ended. Caller has the lock."""
        # First: what ends from here on comes with the next look.
        ended = epoch.take_ended()
        # All that has finished may be known: then `ended` has the rest.
        wants_extent = fully and bool(self.bytes_max or self.is_mirrored) and self._has_unnoted(epoch)
        extent = epoch.extent() if wants_extent else None
        next_offset = epoch.watermark() if extent is None else extent.next_offset
        if next_offset is None:
            return None
        return RawSample(epoch, next_offset, extent, ended, epoch.received.finished_leader_epoch())

    def bounded(self, found: RawSample, lowest: int | None) -> Sample:
        """Return how far an epoch has come; `lowest` waits for its outputs. Caller has the lock."""
        epoch, next_offset, extent, ended, newest_epoch = found
        if lowest is not None:
            next_offset = min(next_offset, lowest)
            extent = extent and extent.below(lowest)
            self._bound_by(epoch, lowest)
        if lowest is not None or (extent is None and self._has_unnoted(epoch)):
            # Never write that a record is finished where an earlier one of its key is not written so: after
            # a crash that one alone would be handled again, behind the later one. It may be among what waits,
            # or what was left out before, so all of these wait for a look.
            ended, epoch.is_extent_due = [], True
        elif extent is not None:
            epoch.is_extent_due = False
        epoch.received.trim_batches(self._trims_to(epoch, next_offset))
        batch = epoch.received.batches.at(next_offset - 1)
        leader_epoch, witness = batch.leader_epoch if batch else None, epoch.received.witness
        return Sample(epoch, next_offset, leader_epoch, witness, extent, ended, newest_epoch)

    def position(self, sample: Sample) -> Position:
        """Return what is to be committed. Needs no lock."""
        epoch, next_offset = sample.epoch, sample.next_offset
        place = epoch.partition, epoch.number
        facts = self.carried(epoch.partition)
        # Without an id a witness stays until a look at the log has proved it: records of another log may have
        # been finished since.
        if sample.witness is not None and (facts.topic_id is not None or facts.witness is None):
            facts = facts._replace(witness=sample.witness)
        last = self._last.get(place)
        is_new = sample.extent is not None or any(offset >= next_offset for offset in sample.ended)
        is_new |= epoch.received.is_refuted
        if not is_new and last is not None and (last.next_offset, last.facts) == (next_offset, facts):
            return last
        known = self._known[place] = self._found(place, sample)
        is_complete = not epoch.is_extent_due
        written = self._text(epoch, next_offset, facts, known, is_complete=is_complete)
        self._note_truncated(epoch, written)
        self._last[place] = position = Position(
            epoch.number, next_offset, sample.leader_epoch, written.text, *known, facts
        )
        return position

    def _found(self, place: tuple[TopicPartition, int], sample: Sample) -> Known:
        if not (self.bytes_max or self.is_mirrored):
            return Known()
        if sample.epoch.received.is_refuted:
            # What was restored is of records that are gone: only what this epoch has ended counts.
            sample.epoch.received.is_refuted = False
            self._known.pop(place, None)
        known = self._known.get(place, Known()).above(sample.next_offset)
        ended = [offset for offset in sample.ended if offset >= sample.next_offset]
        known = known.with_ended(ended, sample.newest_epoch)
        # A look tells nothing of what lies above an output that waits: it may know less.
        return known if sample.extent is None else known.joined(sample.extent.finished(), sample.newest_epoch)

    def _trims_to(self, _epoch: Epoch, next_offset: int) -> int:
        """Return up to where no position goes back any more."""
        return next_offset

    def _bound_by(self, epoch: Epoch, lowest: int) -> None:
        """Hear below which offset an epoch's positions stay for now."""

    def _text(
        self, _epoch: Epoch, next_offset: int, facts: LogFacts, known: Known, *, is_complete: bool
    ) -> MetadataText:
        """Return the text of a commit."""
        return encode(next_offset, facts, *known, self.bytes_max, is_complete=is_complete)

    def forget(self, partition: TopicPartition, epoch: int) -> None:
        """Drop what is kept of an epoch that has ended."""
        self._last.pop((partition, epoch), None)
        self._known.pop((partition, epoch), None)
        self._truncated.discard((partition, epoch))
        self._facts.pop(partition, None)

    def refused(self, longest_bytes: int) -> None:
        """Write less from now on: the broker refused metadata of this length, whatever its limit is."""
        documented = EVENT_HUBS_METADATA_BYTES_MAX
        less = documented if longest_bytes > documented else longest_bytes // 2
        self.bytes_max = min(self.bytes_max, less if less >= METADATA_BYTES_MIN else 0)
        # A text of another length is due, though nothing has finished.
        self._last.clear()
        self._quiet.clear()

    def _has_unnoted(self, epoch: Epoch) -> bool:
        return epoch.ends_unnoted or (epoch.partition, epoch.number) not in self._known

    def _note_truncated(self, epoch: Epoch, written: MetadataText) -> None:
        place = epoch.partition, epoch.number
        if not self.bytes_max or not written.dropped_offsets:
            self._truncated.discard(place)
        elif place not in self._truncated:
            self._truncated.add(place)
            if self._emit is not None:
                kept, dropped = written.kept_offsets, written.dropped_offsets
                self._emit(ProgressTruncated(epoch.partition, kept, dropped, self.bytes_max))
