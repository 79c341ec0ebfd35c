"""What becomes of a record other than being finished: failed, tried again, skipped, dropped."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event, Failure

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class HandlerFailed(Failure):
    """A handler raised. `decision` says what becomes of the record."""

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    error: str
    decision: str


@dataclass(frozen=True, slots=True)
class RecordRetried(Failure):
    """An attempt failed and the record is parked until its next one."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    error: str
    after_s: float


@dataclass(frozen=True, slots=True)
class BatchRaised(Failure):
    """A batch handler raised, and nobody knows for which record: they are retried in smaller batches.

    That is no attempt for any of them. A batch of one record that fails is a `HandlerFailed`, as ever.
    """

    level: ClassVar[int] = logging.WARNING
    handler: str
    records: int
    error: str
    next_records_max: int


@dataclass(frozen=True, slots=True)
class RecordSkipped(Failure):
    """A record got the outcome *skipped*: its handler or the failure policy asked for it."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeferredAnswerDropped(Event):
    """A deferred record was answered, but that came too late to count; `reason` says for what. Once each."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class StaleResult(Event):
    """A record of an ended epoch finished late; its outcome was dropped, it will be redelivered."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    epoch: int
    records: int


@dataclass(frozen=True, slots=True)
class RecordsTooOld(Event):
    """Records older than `max_age` were skipped: one event for each burst of a partition."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    records: int
    first_offset: int
    last_offset: int
    oldest_age_s: float
    max_age_s: float
