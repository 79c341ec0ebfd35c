"""One partition's part of a task: its assignment, from its first record to its last outcome.

On the task's main thread. The assignment lives as long as the batch: what the local engine forgets at a
revoke is forgotten at its end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EhkafkaError, describe
from ehkafka.spark.engine.tasks.results import PartitionResult
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka.intake.max_age import AgeLimits
    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.records import Message, TopicPartition

# Epochs tell assignments of one process apart, and here each dispatcher has one for each partition.
_EPOCH = 1


class PartitionWork:
    """The records of one partition. `begin`, `receive` …, then `end` and `close`."""

    def __init__(
        self, route: Route, partition: TopicPartition, slice_records: int, ages: AgeLimits | None
    ) -> None:
        self.partition = partition
        self._route = route
        self._slice_records = slice_records
        self._ages = ages
        self._assignment: Assignment | None = None
        self._last: Message | None = None

    def begin(self) -> None:
        """Assign it, and open a class handler's instance. Raises `EhkafkaError` when that fails."""
        with self._route.exchange.locked() as dispatcher:
            assignment = dispatcher.assign(self.partition, _EPOCH, opened=False)
        self._assignment = assignment
        if self._route.open is not None:
            try:
                self._route.open(assignment)
            except (Exception, SystemExit) as error:
                raise EhkafkaError(
                    f"Opening {self.partition} failed in handler {self._route.handler!r}: "
                    f"{ended(describe(error))} Its "
                    "records were not handled. Fix the class."
                ) from error
        with self._route.exchange.locked() as dispatcher:
            dispatcher.open(assignment)

    def slices(self, messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """Yield the messages in parts that are received at once."""
        size = self._slice_records
        if len(messages) <= size:
            if messages:
                yield messages
            return
        for start in range(0, len(messages), size):
            yield messages[start : start + size]

    def receive(self, messages: Sequence[Message]) -> None:
        """Queue records, ascending, each behind the others of its key."""
        assignment, route = self._assignment, self._route
        assert assignment is not None
        now_s = time.monotonic()
        self._last = messages[-1]
        skipped = self._ages.too_old(self.partition, messages) if self._ages is not None else ()
        if skipped:
            young = [message for message in messages if message.offset() not in skipped]
            keys = route.keys.keys(young) if young else []
            with route.exchange.locked() as dispatcher:
                dispatcher.receive(assignment, messages, keys, now_s, skipped)
            return
        unread = route.dispatcher.takes_unread(assignment)
        read = None if unread else route.keys.keys(messages)
        with route.exchange.locked() as dispatcher:
            dispatcher.receive(assignment, messages, read, now_s)

    def drain(self) -> None:
        """Start nothing more; what runs goes on."""
        if self._assignment is not None:
            with self._route.exchange.locked() as dispatcher:
                dispatcher.drain(self._assignment, below_started=False)

    def is_drained(self) -> bool:
        """Tell whether nothing runs any more."""
        if self._assignment is None:
            return True
        with self._route.exchange.locked() as dispatcher:
            return dispatcher.drained(self._assignment)

    def running(self) -> tuple[Route, Assignment] | None:
        """Return what runs it, between `begin` and `close`."""
        return None if self._assignment is None else (self._route, self._assignment)

    def end(self) -> None:
        """End the assignment: nothing that is sent for it, or answered, counts any more."""
        if self._assignment is not None:
            with self._route.exchange.locked() as dispatcher:
                dispatcher.end(self._assignment)

    def close(self) -> BaseException | None:
        """Close a class handler's instance, after `end`; return what that raised."""
        assignment, self._assignment = self._assignment, None
        if assignment is not None and self._route.close is not None:
            try:
                self._route.close(assignment, "stopped")
            except (Exception, SystemExit) as error:
                return error
        return None

    def result(self) -> PartitionResult:
        """Return how its records ended. Before `end`."""
        assignment, last = self._assignment, self._last
        assert assignment is not None
        counts: dict[str, Any] = {
            "received": assignment.received_records,
            "finished": assignment.finished_records,
            "skipped": assignment.skipped_records,
            "dead_lettered": assignment.dead_lettered_records,
        }
        if last is None:
            return PartitionResult(*self.partition, **counts)
        kind, timestamp_ms = last.timestamp()
        return PartitionResult(
            *self.partition,
            **counts,
            last_offset=last.offset(),
            last_timestamp_ms=timestamp_ms if kind else None,
            last_leader_epoch=last.leader_epoch(),
        )
