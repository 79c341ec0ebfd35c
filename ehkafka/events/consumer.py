"""What the drop-in consumer tells."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class DropInDeviated(Event):
    """The drop-in consumer does something in its own way; reported once per consumer and `deviation`."""

    deviation: str
    text: str


@dataclass(frozen=True, slots=True)
class MarksMissing(Event):
    """A contiguous drop-in has paused a partition, and for `quiet_s` no record was marked done."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    oldest_offset: int
    unmarked_records: int
    quiet_s: float
