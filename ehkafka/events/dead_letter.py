"""What becomes of dead letters."""

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
    """A record's dead letter is safe, and the record has the outcome *dead-lettered*."""

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
    """A dead letter could not be written. It is retried after `retry_s`; `None`: its record is held.

    `retry_s` is 0 where the broker has not refused it: no acknowledgement for 10 s, and it is waited for.
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
