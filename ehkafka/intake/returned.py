"""Records that a stop returns to the group, and their report: a log line if all is well, else the error.

On the poll thread, at the end of a run. Looked at before the epochs end, judged after the last commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.events import RecordsLeft
from ehkafka.intake.stuck import by_route, running_records
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.progress.metadata import CommitMetadata, decode
from ehkafka.progress.ranges import Known, count_offsets
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence

    from ehkafka.intake.membership import Released
    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.ranges import Ranges
    from ehkafka.records import TopicPartition

NAMED_MAX = 20


class ReturnedRecords(NamedTuple):
    """Records without a result at the end of a drain, and records that were finished above them."""

    # Handlers that still run, and how many records these were given.
    running: tuple[str, ...]
    running_records: int
    # Heads that failed, or were held before they started, with what they wait for.
    waiting: tuple[str, ...]
    # By partition, the lowest offset without an outcome, and what is finished above it.
    finished: Mapping[TopicPartition, tuple[int, Ranges]]
    # Outputs that are not acknowledged.
    outputs: int = 0
    # Partitions whose commits stop below such an output, or, exactly once, below a refused one.
    bounded: frozenset[TopicPartition] = frozenset()

    def unacknowledged(self) -> str:
        """Say that outputs are not acknowledged, for the error; empty where all are."""
        if not self.outputs:
            return ""
        return (
            f"{counted(self.outputs, 'output was', 'outputs were')} not acknowledged by the broker in time. "
            "The records of these outputs were not committed; the next owner handles the records again and "
            "sends the outputs again."
        )

    def event(self, left_records: int) -> RecordsLeft | None:
        """Return the event for so many records without an outcome; None where nothing was left."""
        never_started = max(0, left_records - self.running_records - len(self.waiting))
        repeated = sum(count_offsets(above) for _, above in self.finished.values())
        if not (never_started or self.waiting or repeated):
            return None
        return RecordsLeft(never_started, len(self.waiting), self.waiting[:NAMED_MAX], repeated)

    def still_running(self) -> str:
        """Name the records whose handlers run, for the error; empty where none does."""
        if not self.running:
            return ""
        shown = ", ".join(self.running[:NAMED_MAX]) + (" …" if len(self.running) > NAMED_MAX else "")
        return (
            "The app stopped while handlers were running; the records of these calls were not committed "
            f"and are handled again: {shown}."
        )

    def uncommitted(
        self, partitions: Sequence[TopicPartition], released: Released, problem: str | None
    ) -> str:
        """Say that the last commit of partitions failed, for the error; empty where there are none."""
        if not partitions:
            return ""
        committed = [(p, at) for p in partitions if (at := released.committed.get(p)) is not None]
        finished = sum(self._not_in(position, p) for p, position in committed)
        shown = ", ".join(map(str, partitions))
        count = f"up to {finished} records" if len(committed) == len(partitions) else "the records"
        return (
            f"The last commit of {shown} failed ({problem or 'no answer in time'}), "
            f"so {count} that were finished since the previous commit are handled again."
        )

    def unsaved(self, released: Released) -> str:
        """Name the partitions whose finished records their commits do not tell, for the error; else empty."""
        lost: tuple[list[str], list[str]] = [], []
        for partition, position in released.committed.items():
            if position is None or partition in released.uncommitted:
                continue
            if offsets := self._not_in(position, partition):
                text = f"{counted(offsets, 'finished record')} of {partition}"
                lost[partition in self.bounded].append(text)
        without_room, above_refused = map(", ".join, lost)
        words = []
        if shown := without_room:
            words.append(
                f"{shown} could not be saved with the commit, because an earlier record is unfinished. These "
                "records are handled again. Give the app a mirror, or raise stop_s."
            )
        if shown := above_refused:
            words.append(
                f"Not committed: {shown}, because an output of these records or of an earlier record was "
                "refused or not acknowledged. These records are handled again."
            )
        return " ".join(words)

    def _not_in(self, committed: Position, partition: TopicPartition) -> int:
        """Return how many finished offsets a commit does not tell."""
        next_offset, above = self.finished.get(partition, (0, ()))
        decoded = decode(committed.metadata or "", committed.next_offset)
        said = Known(decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ())
        # The commit came later: it may have passed some of these, or say more.
        finished = Known(((0, next_offset), *above)).above(committed.next_offset)
        return count_offsets(said.joined(finished.finished, None).finished) - count_offsets(said.finished)


def still_unfinished(owned: Collection[OwnedPartition]) -> ReturnedRecords:
    """Look at what partitions have without a result. Takes each route's lock once."""
    waiting: list[str] = []
    finished: dict[TopicPartition, tuple[int, Ranges]] = {}
    running = 0
    for route, epochs in by_route(owned):
        with route.hub.locked() as inboxes:
            held = list(_held(inboxes, epochs))
            running += _running(inboxes, epochs)
            extents = [
                (epoch.partition, extent) for epoch in epochs if (extent := epoch.extent()) is not None
            ]
        # Not under the lock: a user's key may look at the app when it is put into words.
        waiting += [f"{where} key {describe_key(key)} ({why})" for where, key, why in held]
        finished |= {
            partition: (extent.next_offset, extent.finished())
            for partition, extent in extents
            if extent is not None
        }
    return ReturnedRecords(tuple(running_records(owned)), running, tuple(waiting), finished)


def _running(inboxes: Inboxes, epochs: Container[Epoch]) -> int:
    """Return how many records of epochs were given to handlers that have not ended them."""
    awaited = (held.q[0] for held in inboxes.waiting.held if held.ticket is not None and not held.is_parked)
    return sum(1 for entry in (*inboxes.running(), *awaited) if entry[EPOCH] in epochs)


def _held(inboxes: Inboxes, epochs: Container[Epoch]) -> Iterator[tuple[str, Hashable, str]]:
    """Yield where the first record of each waiting key is, the key, and what it waits for."""
    for held in inboxes.waiting.held:
        if held.ticket is None and held.decision is not None and held.q and held.q[0][EPOCH] in epochs:
            yield f"{held.q[0][EPOCH].partition}@{held.q[0][MESSAGE].offset()}", held.key, why_held(held)


def why_held(held: Held) -> str:
    """Return what a key waits for that waits for no answer."""
    assert held.decision is not None
    how = "waits for its retry" if held.due_s is not None else "on hold"
    return f"{how}: {held.decision.reason}"
