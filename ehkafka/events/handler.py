"""What happens to a handler's workers, and where the user's code fails or stays."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from ehkafka.errors import describe
from ehkafka.events.event import Event, Failure, raised

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class HandlerResized(Event):
    """A handler's number of workers was changed while it ran."""

    handler: str
    workers_before: int
    workers: int


@dataclass(frozen=True, slots=True)
class AttemptOverdue(Event):
    """A handler on a thread has run for longer than its `deadline_s`; reported once, with the thread's stack.

    A thread cannot be ended: the record's key and the worker wait, and what the handler does later counts.
    """

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    handler: str
    running_s: float
    deadline_s: float
    stack: str


@dataclass(frozen=True, slots=True)
class StuckReport(Event):
    """Lag, but nothing finished for a while: which records run and where their threads are."""

    level: ClassVar[int] = logging.ERROR
    idle_s: float
    running: tuple[str, ...]
    stacks: str


@dataclass(frozen=True, slots=True)
class WorkerProcessDied(Event):
    """A worker process ended by itself and is replaced. `was_running`: a record is charged for it."""

    level: ClassVar[int] = logging.ERROR
    worker: str
    pid: int
    how: str
    was_running: bool


@dataclass(frozen=True, slots=True)
class WorkersLogNothing(Event):
    """Logging is set up here but not in the processes of `worker`: what handlers log at INFO vanishes."""

    level: ClassVar[int] = logging.WARNING
    worker: str


@dataclass(frozen=True, slots=True)
class UserCodeFailed(Failure):
    """A hook of the user (`on_assigned`, `open`, `on_error`, …) raised."""

    level: ClassVar[int] = logging.ERROR
    where: str
    error: str

    @classmethod
    def of(cls, where: str, error: BaseException) -> Self:
        """Return the event for what a hook raised."""
        return cls(where, describe(error), **raised(error))


@dataclass(frozen=True, slots=True)
class UserCodeHangs(Event):
    """A hook of the user has not returned for `running_s`. Those of other partitions go on without it."""

    level: ClassVar[int] = logging.ERROR
    where: str
    running_s: float


@dataclass(frozen=True, slots=True)
class UserCodeLeft(Event):
    """The time of a stop was over while hooks or tear-downs of the user still ran; they are left running."""

    level: ClassVar[int] = logging.WARNING
    running: tuple[str, ...]
