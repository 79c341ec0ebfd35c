"""Events of records that are not finished at once: failed, retried, skipped or ignored."""

from __future__ import annotations

from logging import ERROR, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event, Failure, kind_in, without_numbers
from ehkafka.wording import seconds
from ehkafka.wording.line import clause, ending, plain, records

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.records import TopicPartition


class HandlerFailed(Failure, level=ERROR):
    """A handler raised an error. `decision`: what the app does with the record."""

    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    error: str
    decision: str

    def sentence(self) -> str:
        return (
            f"The handler failed on {self.partition}@{self.offset}, key {plain(self.key)}, "
            f"attempt {self.attempt}: {clause(self.error)}{self.at_place}. "
            f"Decision: {ending(self.decision)}"
        )

    def subject(self) -> Hashable:
        # The attempts of one record; its final decision differs and is thus always written.
        return (self.partition, self.offset, without_numbers(self.decision), self.place)


class RecordRetried(Failure, level=WARNING):
    """An attempt failed, and the record waits for its next attempt."""

    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    error: str
    after_s: float

    def sentence(self) -> str:
        return (
            f"Attempt {self.attempt} of {self.partition}@{self.offset}, key {plain(self.key)}, failed: "
            f"{clause(self.error)}{self.at_place}. Retrying in {seconds(self.after_s)}. Later records of "
            "this key wait."
        )

    def subject(self) -> Hashable:
        # A flood of them has few reasons: one line for each kind of error of a topic, and where it is raised.
        return (self.partition.topic, kind_in(self.error), self.place)


class BatchRaised(Failure, level=WARNING):
    """A batch handler raised an error without naming a record: the records are retried in smaller batches.

    The call does not count as an attempt. If a batch of one record fails, the event is `HandlerFailed`.
    """

    handler: str
    records: int
    error: str
    next_records_max: int

    def sentence(self) -> str:
        return (
            f"Batch handler {plain(self.handler)} raised for {records(self.records)}: "
            f"{clause(self.error)}{self.at_place}. The app retries these records, at most "
            f"{self.next_records_max} at a time, until it finds the record that fails."
        )

    def subject(self) -> Hashable:
        return (self.handler, kind_in(self.error), self.place)


class RecordSkipped(Failure, level=WARNING):
    """A record was skipped, as its handler or the failure policy decided."""

    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    reason: str

    def sentence(self) -> str:
        return (
            f"Skipped {self.partition}@{self.offset}, key {plain(self.key)}, after attempt "
            f"{self.attempt}: {clause(self.reason)}{self.at_place}."
        )

    def subject(self) -> Hashable:
        return (self.partition.topic, kind_in(self.reason), self.place)


class DeferredAnswerDropped(Event, level=WARNING):
    """The answer to a deferred record came too late, and is ignored. Reported once for each record."""

    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    reason: str

    def sentence(self) -> str:
        return (
            f"Ignored the answer to deferred record {self.partition}@{self.offset}, key {plain(self.key)}, "
            f"attempt {self.attempt}: {ending(self.reason)}"
        )

    def subject(self) -> Hashable:
        return (self.partition.topic, self.reason)


class StaleResult(Event, level=WARNING, subject="partition"):
    """A result was ignored: its partition was reassigned. The new owner handles the record again."""

    partition: TopicPartition
    epoch: int
    records: int

    def sentence(self) -> str:
        return (
            f"Ignored the result of {records(self.records)} of {self.partition}: the partition was "
            "reassigned while the handler ran. The new owner handles them again. To avoid this, raise "
            "drain_s."
        )


class RecordsTooOld(Event, level=WARNING, subject="partition"):
    """Records older than `max_age` were skipped. One event for all that were received together."""

    partition: TopicPartition
    records: int
    first_offset: int
    last_offset: int
    oldest_age_s: float
    max_age_s: float

    def sentence(self) -> str:
        return (
            f"Skipped {records(self.records)} of {self.partition}, offsets {self.first_offset} to "
            f"{self.last_offset}: older than max_age={seconds(self.max_age_s)}; the oldest is "
            f"{self.oldest_age_s:.0f} s old."
        )
