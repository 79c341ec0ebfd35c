"""One partition's part of a task: its epoch, from its first record to its last result.

On the task's main thread. The epoch lives as long as the batch: what the local engine forgets at a
revoke is forgotten at its end.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.errors import EhkafkaError, describe
from ehkafka.headers.size import sizes_of
from ehkafka.spark.engine.tasks.results import LastRecord, PartitionResult
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka.intake.max_age import AgeLimits
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.records import Message, TopicPartition

# Numbers tell a partition's epochs apart, and here each hub has one for each partition.
_NUMBER = 1


class PartitionWork:
    """The records of one partition. `begin` first, `receive` …, then `end` and `close`."""

    def __init__(self, route: Route, partition: TopicPartition, ages: AgeLimits | None) -> None:
        self.partition = partition
        self._route = route
        self._ages = ages
        self._epoch: Epoch
        self._last: Message | None = None

    def begin(self) -> None:
        """Assign it, and open a class handler's instance. Raises `EhkafkaError` when that fails."""
        with self._route.hub.locked() as inboxes:
            epoch = inboxes.assign(self.partition, _NUMBER, opened=False)
        self._epoch = epoch
        if self._route.open is not None:
            where = f"Opening {self.partition} failed in handler {self._route.handler!r}"
            with naming(where, "Its records were not handled. Fix the class."):
                self._route.open(epoch)
        with self._route.hub.locked() as inboxes:
            inboxes.open(epoch)

    def receive(self, messages: Sequence[Message]) -> None:
        """Queue records, ascending, each behind the others of its key."""
        epoch, route = self._epoch, self._route
        self._last = messages[-1]
        sizes = sizes_of(messages)  # before any code of the user's sees them
        skipped = self._ages.too_old(self.partition, messages) if self._ages is not None else ()
        young = messages
        if skipped:
            young = [message for message in messages if message.offset() not in skipped]
        keys = route.keys.keys(young) if young else []
        route.hub.receive([(epoch, messages, keys, skipped, sizes)])

    def drain(self) -> None:
        """Start nothing more; what runs continues."""
        with self._route.hub.locked() as inboxes:
            inboxes.ending.drain([self._epoch], None)

    def is_drained(self) -> bool:
        """Tell whether nothing runs any more."""
        with self._route.hub.locked() as inboxes:
            return inboxes.ending.is_drained([self._epoch])

    def running(self) -> tuple[Route, Epoch]:
        """Return what runs it."""
        return self._route, self._epoch

    def end(self) -> None:
        """End the epoch: nothing that is sent for it, or answered, counts any more."""
        with self._route.hub.locked() as inboxes:
            inboxes.ending.end([self._epoch])

    def close(self) -> BaseException | None:
        """Close a class handler's instance, after `end`; return what that raised."""
        if self._route.close is not None:
            try:
                self._route.close(self._epoch, "stopped")
            except (Exception, SystemExit) as error:
                return error
        return None

    def result(self) -> PartitionResult:
        """Return how its records ended. Before `end`."""
        tally, last = self._epoch.tally, None
        if self._last is not None:
            kind, timestamp_ms = self._last.timestamp()
            last = LastRecord(self._last.offset(), timestamp_ms if kind else None, self._last.leader_epoch())
        return PartitionResult(
            *self.partition,
            received=tally.received_records,
            finished=tally.finished_records,
            skipped=tally.skipped_records,
            dead_lettered=tally.dead_lettered_records,
            last=last,
        )


@contextmanager
def naming(what: str, step: str) -> Iterator[None]:
    """Raise `EhkafkaError` that says what failed in the user's code, and what to do."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise EhkafkaError(f"{what}: {ended(describe(error))} {step}") from error
