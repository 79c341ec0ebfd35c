"""Events of dead letters."""

from __future__ import annotations

from logging import ERROR, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event, Failure
from ehkafka.wording import seconds
from ehkafka.wording.line import clause, plain

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.records import TopicPartition


class RecordDeadLettered(Event, level=WARNING):
    """The broker has acknowledged a record's dead letter, and the record is done."""

    partition: TopicPartition
    offset: int
    key: str
    to: str

    def sentence(self) -> str:
        return (
            f"Dead-lettered {self.partition}@{self.offset}, key {plain(self.key)}: the dead letter is in "
            f"{plain(self.to)}."
        )

    def subject(self) -> Hashable:
        return (self.partition.topic, self.to)


class DeadLetterFailed(Failure, level=ERROR):
    """A dead letter could not be written. The app retries after `retry_s`; None: the key is on hold.

    `retry_s` is 0 if the broker has not refused the dead letter, but has not acknowledged it for 10 s.
    """

    partition: TopicPartition
    offset: int
    key: str
    to: str
    error: str
    retry_s: float | None

    def sentence(self) -> str:
        then = "its key is on hold" if not self.retry_s else f"the next retry is in {seconds(self.retry_s)}"
        return (
            f"The dead letter of {self.partition}@{self.offset}, key {plain(self.key)}, could not be "
            f"written to {plain(self.to)}: {clause(self.error)}{self.at_place}. "
            f"Nothing is committed past this record; {then}."
        )

    def subject(self) -> Hashable:
        return (self.to, self.retry_s is None, self.place)
