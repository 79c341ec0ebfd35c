"""What becomes of dead letters."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class RecordDeadLettered(Event):
    """A record's dead letter is safe, and the record has the outcome *dead-lettered*."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    offset: int
    key: str
    to: str


@dataclass(frozen=True, slots=True)
class DeadLetterFailed(Event):
    """A dead letter could not be written. It is tried again after `retry_s`; `None`: its record is held."""

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    offset: int
    key: str
    to: str
    error: str
    retry_s: float | None
