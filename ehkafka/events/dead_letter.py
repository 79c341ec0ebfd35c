"""What becomes of dead letters."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event, Failure

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
class DeadLetterFailed(Failure):
    """A dead letter could not be written. It is tried again after `retry_s`; `None`: its record is held.

    `retry_s` is 0 where nobody has refused it: it has not been acknowledged for 10 s, and is waited for.
    """

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    offset: int
    key: str
    to: str
    error: str
    retry_s: float | None


@dataclass(frozen=True, slots=True)
class DeadLetterProducerReplaced(Event):
    """The dead letters' producer was given up; another one is opened after `wait_s`. No letter is lost."""

    level: ClassVar[int] = logging.WARNING
    reason: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class DeadLetterProducerPlain(Event):
    """The broker gives no producer ids, so dead letters are written without one.

    Their order is kept. One whose acknowledgement is lost on the way may stand in the topic twice.
    """

    level: ClassVar[int] = logging.WARNING
    reason: str
