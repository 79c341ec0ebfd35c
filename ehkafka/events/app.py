"""What happens to the app: its start, what it is advised then, its stop."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event

if TYPE_CHECKING:
    from ehkafka.settings import Drain


@dataclass(frozen=True, slots=True)
class AppStarted(Event):
    """The consumer is subscribed and the workers wait for records."""

    group: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupWatched(Event):
    """Before a reset the group's commits are watched: the service may not tell whether it has members."""

    level: ClassVar[int] = logging.WARNING
    group: str
    watch_s: float


@dataclass(frozen=True, slots=True)
class GroupReset(Event):
    """The group was taken back to `start` before the app joined it. `once_as` is the setting's name."""

    level: ClassVar[int] = logging.WARNING
    group: str
    topics: tuple[str, ...]
    partitions: int
    once_as: str | None


@dataclass(frozen=True, slots=True)
class SettingAdvice(Event):
    """A setting is permitted, but the service or the client library advises against it. Logged at start."""

    level: ClassVar[int] = logging.WARNING
    property: str
    value: str
    advice: str
    source: str


@dataclass(frozen=True, slots=True)
class AppStopping(Event):
    """A stop began: intake ends; what is finished within the deadline says `drain` of the settings."""

    reason: str
    drain: Drain
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Draining(Event):
    """A drain goes on; emitted about once a second."""

    remaining_s: float
    unfinished_records: int


@dataclass(frozen=True, slots=True)
class BatchesFinished(Event):
    """Batches on Spark that count by now: all their records have an outcome. Every few seconds at most.

    `took_s` is the time that they took, without that between them. `left_records` are offsets up to the logs'
    ends as last seen; None where Spark does not tell.
    """

    batches: int
    received_records: int
    took_s: float
    left_records: int | None


@dataclass(frozen=True, slots=True)
class RecordsLeft(Event):
    """A stop left received records to the next owner. None of them was committed past.

    `waiting` names the first of the keys that wait for a retry or are held, each with its record and the
    reason. `repeated_without_metadata` is how many offsets are finished above the commits: a client that
    does not read their metadata repeats them.
    """

    never_started_records: int
    waiting_keys: int
    waiting: tuple[str, ...]
    repeated_without_metadata: int


@dataclass(frozen=True, slots=True)
class AppStopped(Event):
    """The run has ended, the consumer left the group. `returned_records` were received and have no outcome.

    `exit_code` is 0 when nothing that was started is without a saved outcome, else that of the error that
    `App.run()` and `App.stop()` raise; what an `on_stop` function raises in the program's own thread comes
    later.
    """

    exit_code: int
    returned_records: int
