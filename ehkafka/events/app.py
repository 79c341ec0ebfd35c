"""What happens to the app: its start, what it is advised then, its stop."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from ehkafka.events.event import Event


@dataclass(frozen=True, slots=True)
class AppStarted(Event):
    """The consumer is subscribed and the workers wait for records."""

    group: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingAdvice(Event):
    """A setting is permitted, but the service or the client library advises against it. Told at the start."""

    level: ClassVar[int] = logging.WARNING
    property: str
    value: str
    advice: str
    source: str


@dataclass(frozen=True, slots=True)
class AppStopping(Event):
    """A stop began: intake ends, running work goes on within the deadline."""

    reason: str
    drain: bool
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Draining(Event):
    """A drain goes on; emitted about once a second."""

    remaining_s: float
    unfinished_records: int


@dataclass(frozen=True, slots=True)
class BatchesFinished(Event):
    """Batches on Spark that count by now: all their records have an outcome. Told every few seconds at most.

    `took_s` is the time that they took, without that between them. `left_records` are offsets up to the logs'
    ends as last seen; None where Spark does not tell.
    """

    batches: int
    received_records: int
    took_s: float
    left_records: int | None


@dataclass(frozen=True, slots=True)
class AppStopped(Event):
    """The consumer left the group. `abandoned_records` will be redelivered."""

    exit_code: int
    abandoned_records: int
