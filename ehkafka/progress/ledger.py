"""Decides which positions to commit and when: pacing, coalescing, changes, one request in flight.

Pure; time comes in as an argument; called by the poll thread only. The committer sends what `plan`
returns and reports back; nothing counts as committed before the broker acknowledged it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ehkafka.progress.metadata import NOTHING_KNOWN, LogFacts, without_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import TopicPartition


# Between two looks at positions of which none is expected to change.
REST_S: Final = 5.0


class Position(NamedTuple):
    """The contents of a commit for one partition, which a mirror copies.

    All offsets below `next_offset` have a result or are not in the log. `finished` are half-open ranges at
    or above it, ascending and apart, whose received records have a result, too. `finished_leader_epoch` is
    the newest leader epoch among these: a record of a newer one is another than the one that finished.
    `epoch` is local and not sent. `metadata` contains `facts`, and of `finished` as much as fits.
    """

    epoch: int
    next_offset: int
    leader_epoch: int | None = None
    metadata: str | None = None
    finished: tuple[tuple[int, int], ...] = ()
    finished_leader_epoch: int | None = None
    facts: LogFacts = NOTHING_KNOWN


@dataclass(frozen=True, slots=True)
class CommitPacing:
    """When to commit: every `interval_s`, or earlier after `every_records` more, but `spacing_s` apart.

    All of it is for the asynchronous commits, of which one at a time is in flight with all partitions in
    it. The synchronous one of a revoke, a start or a stop waits for no pace, because nothing comes
    after it that could; the next asynchronous one keeps its distance from it. With `idle_s`, an unchanged
    position is sent again after so long, and once after the assignment: the age of the group's
    commit is not known by then.
    """

    interval_s: float = 1.0
    every_records: int | None = None
    spacing_s: float = 0.0
    idle_s: float | None = None
    # Whether those that are early for their records take a share of the time at most: see `saving`.
    early_at_a_share: bool = False


@dataclass(slots=True)
class _Committed:
    epoch: int
    # The length of the shortest metadata that the broker found too large; nothing so long is offered again.
    metadata_refused_bytes: float = float("inf")
    acknowledged: Position | None = None
    # When the broker stored it; the group's own commit may be of any age.
    acknowledged_at_s: float = float("-inf")
    # What was compared last with that, and says the same.
    same: Position | None = None
    # Where a next owner would begin as well if nothing was ever committed.
    found_again: int | None = None


@dataclass(slots=True)
class CommitLedger:
    """Per partition: what the broker has acknowledged in this epoch; over all: the request in flight."""

    pacing: CommitPacing
    # Whether changed ranges are worth a commit that looks the same to the broker: a mirror keeps them.
    keeps_ranges: bool = False
    # Whether what was said once must be said again: a commit without it would have outputs sent again.
    unsays_nothing: bool = False
    _entries: dict[TopicPartition, _Committed] = field(default_factory=dict)
    in_flight: dict[TopicPartition, Position] | None = None
    _last_sent_s: float = float("-inf")
    _not_before_s: float = float("-inf")
    _failures_in_a_row: int = 0
    _again_at_once: bool = False
    # When the detail that the last plan went without can be had.
    _detail_at_s: float = float("inf")
    # When the next one that is early may be made, if its pacing bounds the time for them.
    _early_at_s: float = float("-inf")
    _finished_at_last_plan: int = 0
    # Whether a position may go although nothing about it changed. Cleared by the plan after it was asked for.
    _wants_proof: bool = False

    def assigned(
        self,
        partition: TopicPartition,
        epoch: int,
        committed: Position | None,
        found_again: int | None = None,
    ) -> None:
        """Begin an epoch; `committed` is what the group has for the partition, None if nothing.

        `found_again`: where the next owner would begin, too, without a commit.
        """
        self._entries[partition] = _Committed(epoch, acknowledged=committed, found_again=found_again)

    def ended(self, partition: TopicPartition) -> None:
        """End an epoch: an answer that comes later does not count."""
        self._entries.pop(partition, None)

    def acknowledged(self, partition: TopicPartition) -> Position | None:
        """Return what the broker has stored for a partition of ours, None if nothing."""
        entry = self._entries.get(partition)
        return entry.acknowledged if entry else None

    def due(self, now_s: float, finished_records: int, *, is_at_rest: bool = False) -> bool:
        """Tell whether a commit may and should be planned now. `finished_records` is the running total.

        `is_at_rest`: the last plan had all that was received, and no position changes before that total does.
        """
        if self.in_flight is not None or now_s < self._not_before_s:
            return False
        since_s = now_s - self._last_sent_s
        if since_s < self.pacing.spacing_s:
            return False
        if self._again_at_once or self._wants_proof or now_s >= self._detail_at_s:
            return True
        interval_s = self.pacing.interval_s
        if is_at_rest and finished_records == self._finished_at_last_plan:
            interval_s = max(interval_s, min(REST_S, self.pacing.idle_s or REST_S))
        return since_s >= interval_s or self._is_due_early(now_s, finished_records)

    def _is_due_early(self, now_s: float, finished_records: int) -> bool:
        every = self.pacing.every_records
        if every is None or (self.pacing.early_at_a_share and now_s < self._early_at_s):
            return False
        return finished_records - self._finished_at_last_plan >= every

    def ask_for_proof(self) -> None:
        """Send one position again with the next plan, if nothing else is to be sent.

        Its acknowledgement shows that the broker answers, where no record comes that would show it.
        """
        self._wants_proof = True

    def commit_soon(self) -> None:
        """Let the next commit be due as soon as the pace allows: a caller waits for it."""
        self._again_at_once = True

    def next_due_s(self) -> float:
        """Return the time of the next look that `due` needs, were nothing to finish early."""
        apart_s = max(self.pacing.interval_s, self.pacing.spacing_s)
        return max(self._not_before_s, self._last_sent_s + apart_s)

    def plan(
        self,
        positions: Mapping[TopicPartition, Position],
        now_s: float,
        finished_records: int,
        *,
        detail_at_s: float = float("inf"),
        early_at_s: float = float("-inf"),
    ) -> dict[TopicPartition, Position]:
        """Return what is dirty, or idle for too long, and take it as sent; empty: send nothing.

        Where the positions were made without a look at what is finished out of order, `detail_at_s` is when
        there may be one: a commit is due again then, however long the interval. `early_at_s` is when
        the next early one may be made, where the pacing bounds the time for those.
        """
        dirty = self._dirty(positions, now_s) or self._proof(positions)
        self._last_sent_s = now_s
        self._again_at_once = self._wants_proof = False
        self._detail_at_s = detail_at_s
        self._early_at_s = early_at_s
        self._finished_at_last_plan = finished_records
        if dirty:
            self.in_flight = dirty
        return dirty

    def plan_now(
        self, positions: Mapping[TopicPartition, Position], now_s: float
    ) -> dict[TopicPartition, Position]:
        """Return what a synchronous commit has to send, whatever is in flight, and take it as sent."""
        dirty = self.dirty(positions)
        if dirty:
            self._last_sent_s = now_s
        return dirty

    def dirty(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Return what differs from what the broker has; idle positions do not."""
        return self._dirty(positions, None)

    def missing(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Return what is dirty and would be repeated, or skipped, if it was never committed."""
        return {
            partition: position
            for partition, position in self.dirty(positions).items()
            if position.next_offset != self._entries[partition].found_again or position.finished
        }

    def _dirty(
        self, positions: Mapping[TopicPartition, Position], now_s: float | None
    ) -> dict[TopicPartition, Position]:
        dirty = {}
        for partition, position in positions.items():
            entry = self._entries.get(partition)
            if entry is None or entry.epoch != position.epoch:
                continue
            offered = _offered(entry, position)
            if self.unsays_nothing and offered.metadata != position.metadata:
                continue  # a shorter text comes with the next position
            if self._is_dirty(entry, offered, now_s):
                dirty[partition] = offered
        return dirty

    def _proof(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Return one position that the broker has already, if an answer is wanted."""
        for partition, position in positions.items() if self._wants_proof else ():
            entry = self._entries.get(partition)
            if entry is None or entry.epoch != position.epoch or entry.acknowledged is None:
                continue
            # Never behind what is stored: that would take finished work back.
            if entry.acknowledged.next_offset == position.next_offset:
                return {partition: _offered(entry, position)}
        return {}

    def _is_dirty(self, entry: _Committed, position: Position, now_s: float | None) -> bool:
        idle_s = self.pacing.idle_s
        if idle_s is not None and now_s is not None and now_s - entry.acknowledged_at_s >= idle_s:
            known = entry.acknowledged
            return known is None or position.next_offset >= known.next_offset
        # To read the texts costs much, and an idle partition has the same position at each look.
        if position is not entry.same and self._differs(entry.acknowledged, position):
            return True
        entry.same = position
        return False

    def _differs(self, known: Position | None, position: Position) -> bool:
        if known is None or position.next_offset > known.next_offset:
            return True
        if position.next_offset < known.next_offset:
            return False
        # Other facts go with the next commit; an unchanged partition costs no request for them.
        is_kept = position.metadata is not None or self.keeps_ranges
        if is_kept and position.facts.topic_id not in (None, known.facts.topic_id):
            return True
        is_same = position.metadata == known.metadata
        if not is_same and without_facts(position.metadata) != without_facts(known.metadata):
            return True
        return self.keeps_ranges and position.finished != known.finished

    def confirm(self, stored: Mapping[TopicPartition, Position], now_s: float) -> None:
        """Take an acknowledgement, also a late one: it never lowers what is known to be stored."""
        self._failures_in_a_row = 0
        self._not_before_s = float("-inf")
        for partition, position in stored.items():
            entry = self._entries.get(partition)
            if entry is None or entry.epoch != position.epoch:
                continue
            known = entry.acknowledged
            if known is None or position.next_offset >= known.next_offset:
                entry.acknowledged, entry.same = position, None
                entry.acknowledged_at_s = now_s

    def landed(self) -> dict[TopicPartition, Position]:
        """Take the asynchronous request out of flight, answered or not, and return what it carried."""
        carried, self.in_flight = self.in_flight or {}, None
        return carried

    def failed(self, now_s: float) -> float:
        """Stay dirty and back off; return the wait in seconds before the next try."""
        self._failures_in_a_row += 1
        # Where nothing is dirty any more, only another answer shows that commits go through again.
        self._wants_proof = True
        wait_s = min(self.pacing.interval_s * self._failures_in_a_row, max(5.0, self.pacing.interval_s))
        self._not_before_s = now_s + wait_s
        return wait_s

    def refuse_metadata(self, sent: Mapping[TopicPartition, Position]) -> None:
        """Offer no metadata of that length again for these in this epoch: the broker found it too large.

        What was sent is due again at once, as far as the pace allows, without it.
        """
        self._failures_in_a_row = 0
        self._not_before_s = float("-inf")
        self._again_at_once = True
        longest_bytes = max((len(position.metadata or "") for position in sent.values()), default=0)
        for partition, position in sent.items():
            entry = self._entries.get(partition)
            if entry is not None and position.metadata:
                # Of one error for all it is the longest text's: a short one is not to be left out for it.
                size = longest_bytes if self.unsays_nothing else len(position.metadata)
                entry.metadata_refused_bytes = min(entry.metadata_refused_bytes, size)


def _offered(entry: _Committed, position: Position) -> Position:
    """Return a position without metadata of a length that the broker has refused."""
    if len(position.metadata or "") < entry.metadata_refused_bytes:
        return position
    return position._replace(metadata=None)
