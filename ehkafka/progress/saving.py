"""What a commit says of the records above it: how much detail, in how many bytes.

On the poll thread, at the commit tick and when an epoch ends. Knows neither the consumer nor the broker; the
committer tells it of a refusal.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.endpoint.limits import COMMIT_METADATA_BYTES_MAX
from ehkafka.events import ProgressTruncated
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.finished import Extent
    from ehkafka.progress.metadata import MetadataText
    from ehkafka.records import TopicPartition
    from ehkafka.settings import Settings

# Kafka's default of `offset.metadata.max.bytes` is 4096, and Kafka 4.2 refuses metadata of that very length.
KAFKA_METADATA_BYTES_MAX = 4095
EVENT_HUBS_METADATA_BYTES_MAX = COMMIT_METADATA_BYTES_MAX - 1
# What is not even taken in so few bytes is not worth another try.
METADATA_BYTES_MIN = 64
# Looking through so many unfinished records takes a few milliseconds (50 000 take up to 60).
CHEAP_RECORDS = 5_000
# What working it out may take of the time from one look to the next.
LOOK_SHARE = 0.05


class Detail(enum.Enum):
    """For which partitions to work out what is finished."""

    ALL = "all"
    # Where all goes fast, the next commit comes before any detail helps.
    LAGGING = "those that hold records from before the last commit"
    KEPT = "none; what was said last is said again where the position is still the same"


def metadata_bytes_max(settings: Settings, *, is_event_hubs: bool) -> int:
    """Return how long a commit's metadata may be: the service's limit, or less if the settings ask for it."""
    limit = EVENT_HUBS_METADATA_BYTES_MAX if is_event_hubs else KAFKA_METADATA_BYTES_MAX
    asked = settings.commit_metadata_bytes_max
    return limit if asked is None else min(asked, limit)


class Look(NamedTuple):
    """Where an assignment stands. `extent` is None where no detail is wanted.

    `says_the_same`: what was said last of this very position is to be said again.
    """

    assignment: Assignment
    next_offset: int
    leader_epoch: int | None
    anchor: tuple[int, int] | None
    extent: Extent | None
    says_the_same: bool


class ProgressSaver:
    """Turns assignments into positions. One for an app."""

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
        # When the detail that the last tick went without can be had.
        self.detail_at_s = float("inf")
        self._last: dict[tuple[TopicPartition, int], Position] = {}
        # Somebody else keeps the ranges, whatever fits into the commit.
        self.is_mirrored = False
        # Up to where each epoch had received at the last look; whether detail was dropped then.
        self._seen: dict[tuple[TopicPartition, int], int] = {}
        self._truncated: set[tuple[TopicPartition, int]] = set()
        # What each commit of a partition carries on, beside its own witness.
        self._facts: dict[TopicPartition, LogFacts] = {}

    def carry(self, partition: TopicPartition, facts: LogFacts) -> None:
        """Put these facts into each commit of a partition from now on, until it is forgotten.

        Beside an id, their witness counts until a record of this epoch can be one.
        """
        self._facts[partition] = facts

    def carried(self, partition: TopicPartition) -> LogFacts:
        """Return the facts that a partition's commits carry."""
        return self._facts.get(partition, LogFacts())

    def begin_tick(self, unfinished_records: int) -> Detail:
        """Return how much detail the commit of all partitions may have now; of so many in all of them."""
        self._began_s = self._clock()
        if self._began_s < self._not_before_s:
            return Detail.KEPT
        return Detail.ALL if unfinished_records <= CHEAP_RECORDS else Detail.LAGGING

    def end_tick(self, detail: Detail) -> None:
        """Note what it took."""
        self.detail_at_s = self._not_before_s if detail is Detail.KEPT else float("inf")
        if detail is not Detail.KEPT:
            now_s = self._clock()
            self._not_before_s = now_s + (now_s - self._began_s) / LOOK_SHARE

    def look(self, assignment: Assignment, detail: Detail = Detail.ALL) -> Look | None:
        """Look at where an assignment stands; None while it has no position. Caller has the lock."""
        extent = assignment.extent() if self._wants_detail(assignment, detail) else None
        next_offset = assignment.watermark() if extent is None else extent.next_offset
        if next_offset is None:
            return None
        assignment.trim_marks(next_offset)
        mark = assignment.mark_at(next_offset - 1)
        leader_epoch, anchor = mark.leader_epoch if mark else None, assignment.anchor
        return Look(assignment, next_offset, leader_epoch, anchor, extent, detail is Detail.KEPT)

    def position(self, look: Look) -> Position:
        """Return what is to be committed. Needs no lock."""
        place = look.assignment.partition, look.assignment.epoch
        last = self._last.get(place)
        if look.says_the_same and last is not None and last.next_offset == look.next_offset:
            return last
        position = self._last[place] = self._worked_out(look)
        return position

    def _worked_out(self, look: Look) -> Position:
        assignment, next_offset, extent = look.assignment, look.next_offset, look.extent
        facts = self.carried(assignment.partition)
        # Without an id a witness stays until a look at the log has proved it: records of another log may have
        # been finished since.
        if look.anchor is not None and (facts.topic_id is not None or facts.witness is None):
            facts = facts._replace(witness=look.anchor)
        finished = extent.finished() if extent is not None else ()
        newest = extent.finished_leader_epoch() if extent is not None and finished else None
        is_complete = extent is not None
        said = encode(next_offset, facts, finished, newest, self.bytes_max, is_complete=is_complete)
        self._note_truncated(assignment, said)
        return Position(assignment.epoch, next_offset, look.leader_epoch, said.text, finished, newest, facts)

    def forget(self, partition: TopicPartition, epoch: int) -> None:
        """Drop what is kept of an epoch that has ended."""
        self._seen.pop((partition, epoch), None)
        self._last.pop((partition, epoch), None)
        self._truncated.discard((partition, epoch))
        self._facts.pop(partition, None)

    def refused(self, longest_bytes: int) -> None:
        """Say less from now on: the broker refused metadata of this length, whatever its limit is."""
        documented = EVENT_HUBS_METADATA_BYTES_MAX
        less = documented if longest_bytes > documented else longest_bytes // 2
        self.bytes_max = min(self.bytes_max, less if less >= METADATA_BYTES_MIN else 0)

    def _wants_detail(self, assignment: Assignment, detail: Detail) -> bool:
        if not (self.bytes_max or self.is_mirrored):
            return False
        place = assignment.partition, assignment.epoch
        seen, self._seen[place] = self._seen.get(place, -1), assignment.received_next or 0
        if detail is not Detail.LAGGING:
            return detail is Detail.ALL
        watermark = assignment.watermark()
        return watermark is not None and watermark < seen

    def _note_truncated(self, assignment: Assignment, said: MetadataText) -> None:
        place = assignment.partition, assignment.epoch
        if not self.bytes_max or not said.dropped_offsets:
            self._truncated.discard(place)
        elif place not in self._truncated:
            self._truncated.add(place)
            if self._emit is not None:
                kept, dropped = said.kept_offsets, said.dropped_offsets
                self._emit(ProgressTruncated(assignment.partition, kept, dropped, self.bytes_max))
