"""Events of the drop-in consumer."""

from __future__ import annotations

from logging import WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event
from ehkafka.wording.line import records

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


class DropInDeviated(Event):
    """The drop-in consumer differs from confluent-kafka's. Reported once per consumer and `deviation`."""

    deviation: str
    text: str

    def sentence(self) -> str:
        return f"This consumer differs from confluent-kafka's: {self.text}."


class MarksMissing(Event, level=WARNING):
    """A consumer with `contiguous=True` has paused a partition: for `quiet_s`, no record was marked done."""

    partition: TopicPartition
    oldest_offset: int
    unmarked_records: int
    quiet_s: float

    def sentence(self) -> str:
        return (
            f"{self.partition} is paused: {records(self.unmarked_records)} were delivered but not marked as "
            f"done, the oldest at offset {self.oldest_offset}, and none was marked for {self.quiet_s:.0f} s. "
            "Call store_offsets(message) or commit(message) for every record that is done, failed or not."
        )
