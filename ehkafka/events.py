"""The typed catalogue of what an app tells about itself.

One frozen dataclass per kind of event; each is rare beside records (per assignment, commit, pause or
failure, never per record). The engine emits them, the telemetry thread counts and logs them and hands
them to hooks. Pure values: importing this module starts nothing.

Fields are named as in the vocabulary of DESIGN.md; units come last.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from ehkafka.records import TopicPartition


@dataclass(frozen=True, slots=True)
class Event:
    """Base of every event. `level` is the severity that the log line gets."""

    level: ClassVar[int] = logging.INFO


# Plain counters, beside the one that each kind of event has under its class name.
CounterName = Literal[
    "events_dropped", "hook_errors", "pause_refused", "records_lost", "records_too_old", "records_unassigned"
]


class Hook(Protocol):
    """Receives every event, one at a time, on the telemetry thread.

    It may block or raise: the data path never waits for it. An error is logged once per hook and kind
    of error and counted in `hook_errors`; events that a slow hook makes overflow are counted in
    `events_dropped`.
    """

    def on_event(self, event: Event, /) -> None:
        """Take one event."""


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
class AppStopped(Event):
    """The consumer left the group. `abandoned_records` will be redelivered."""

    exit_code: int
    abandoned_records: int


@dataclass(frozen=True, slots=True)
class PartitionAssigned(Event):
    """A new epoch of a partition began. `position` is an offset or a start position in words."""

    partition: TopicPartition
    epoch: int
    position: str


@dataclass(frozen=True, slots=True)
class PartitionRevoked(Event):
    """An epoch ended with a drain. `next_offset` is what was committed last, `None` if nothing was."""

    partition: TopicPartition
    epoch: int
    next_offset: int | None
    abandoned_records: int
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionLost(Event):
    """An epoch ended without our consent; nothing was committed, another member may own it already."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    epoch: int
    abandoned_records: int


@dataclass(frozen=True, slots=True)
class PartitionPaused(Event):
    """Fetching of a partition was paused because its backlog is over its share."""

    level: ClassVar[int] = logging.DEBUG
    partition: TopicPartition
    backlog_records: int
    backlog_bytes: int
    # The key with the longest lane, when one key holds most of the backlog.
    largest_key: str | None


@dataclass(frozen=True, slots=True)
class PartitionResumed(Event):
    """Fetching of a partition goes on: its backlog fell below the low mark."""

    level: ClassVar[int] = logging.DEBUG
    partition: TopicPartition
    paused_s: float


@dataclass(frozen=True, slots=True)
class CommitAcknowledged(Event):
    """The broker stored these next_offsets."""

    level: ClassVar[int] = logging.DEBUG
    next_offsets: tuple[tuple[TopicPartition, int], ...]
    took_s: float


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """A commit was refused; the partitions stay dirty unless they were lost."""

    level: ClassVar[int] = logging.WARNING
    partitions: tuple[TopicPartition, ...]
    error: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class CommitPaceBounded(Event):
    """The settings ask for commits closer together than the service takes; told once, at the start."""

    level: ClassVar[int] = logging.WARNING
    interval_s: float
    every_records: int | None
    spacing_s: float


@dataclass(frozen=True, slots=True)
class Throttled(Event):
    """A broker held its answers back by so much, because of a quota; empty fetches then prove nothing."""

    level: ClassVar[int] = logging.WARNING
    broker: str
    throttle_s: float


@dataclass(frozen=True, slots=True)
class HandlerFailed(Event):
    """A handler raised. `decision` says what becomes of the record."""

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    error: str
    decision: str


@dataclass(frozen=True, slots=True)
class RecordRetried(Event):
    """An attempt failed and the record is parked until its next one."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    error: str
    after_s: float


@dataclass(frozen=True, slots=True)
class BatchRaised(Event):
    """A batch handler raised, and nobody knows for which record: they come again in smaller batches.

    That is no attempt for any of them. A batch of one record that fails is a `HandlerFailed`, as ever.
    """

    level: ClassVar[int] = logging.WARNING
    handler: str
    records: int
    error: str
    next_records_max: int


@dataclass(frozen=True, slots=True)
class RecordSkipped(Event):
    """A record got the outcome *skipped*: its handler or the failure policy asked for it."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    reason: str


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


@dataclass(frozen=True, slots=True)
class ParkedBudgetFull(Event):
    """A partition's share of the parked budget is full. `action` is what was declared for it."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    parked_records: int
    parked_bytes: int
    # The parked key with the most records.
    largest_key: str
    action: str


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
class AttemptOverdue(Event):
    """A handler on a thread has run for longer than its `deadline_s`; told once, with the thread's stack.

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
class HandlerResized(Event):
    """A handler's number of workers was changed while it ran."""

    handler: str
    workers_before: int
    workers: int


@dataclass(frozen=True, slots=True)
class StaleResult(Event):
    """A record of an ended epoch finished late; its outcome was dropped, it will be redelivered."""

    level: ClassVar[int] = logging.WARNING
    partition: TopicPartition
    epoch: int
    records: int


@dataclass(frozen=True, slots=True)
class OffsetGap(Event):
    """The log no longer holds, or does not hold yet, the offset that was to be read next.

    `log_start` and `log_end` are what the log holds now; a wanted offset above the end means that the log
    was cut or made anew. `lost_records` counts the offsets that are never read, those that `latest` skips
    included (holes of compaction and transactions count as well). `action` is the policy
    `on_out_of_range`; `resumed_at` is None when it stops the app.
    """

    level: ClassVar[int] = logging.ERROR
    partition: TopicPartition
    wanted_offset: int
    log_start: int
    log_end: int
    lost_records: int
    action: str
    resumed_at: int | None


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


@dataclass(frozen=True, slots=True)
class ConnectionTrouble(Event):
    """librdkafka reported an error of the connection or group that it may or may not mend itself."""

    level: ClassVar[int] = logging.WARNING
    code: str
    error: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class CredentialRotated(Event):
    """A changed key was taken up: the client uses it for its next authentication. Never holds the key."""

    source: str


@dataclass(frozen=True, slots=True)
class CredentialUnusable(Event):
    """Reading the credential again gave nothing usable; the old one stays in use.

    Told when it begins, when the reason changes, and about twice a minute while it lasts.
    """

    level: ClassVar[int] = logging.WARNING
    source: str
    reason: str
    # In a row.
    failures: int


@dataclass(frozen=True, slots=True)
class TokenRefreshed(Event):
    """A new Entra ID token is in use. `failures` is how many attempts in a row had failed before it."""

    level: ClassVar[int] = logging.DEBUG
    endpoint: str
    life_s: float
    took_s: float
    failures: int


@dataclass(frozen=True, slots=True)
class TokenRefreshFailed(Event):
    """The credential gave no usable token. `valid_s` is what the one in use has left; 0: none is valid."""

    level: ClassVar[int] = logging.WARNING
    endpoint: str
    # In a row.
    failures: int
    error: str
    valid_s: float
    retry_s: float


@dataclass(frozen=True, slots=True)
class ClientLogged(Event):
    """A log line of librdkafka's own. Only errors are shown by default: it mends most of what it warns of."""

    level: ClassVar[int] = logging.DEBUG
    severity: int
    text: str


@dataclass(frozen=True, slots=True)
class UserCodeFailed(Event):
    """A hook of the user (`on_assigned`, `open`, `on_error`, …) raised."""

    level: ClassVar[int] = logging.ERROR
    where: str
    error: str


@dataclass(frozen=True, slots=True)
class UserCodeLeft(Event):
    """The time of a stop was over while hooks or tear-downs of the user still ran; they are left behind."""

    level: ClassVar[int] = logging.WARNING
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerProcessDied(Event):
    """A worker process ended by itself and is replaced. `was_running`: a record is charged for it."""

    level: ClassVar[int] = logging.ERROR
    worker: str
    pid: int
    how: str
    was_running: bool


@dataclass(frozen=True, slots=True)
class StuckReport(Event):
    """Lag, but nothing finished for a while: which records run and where their threads are."""

    level: ClassVar[int] = logging.ERROR
    idle_s: float
    running: tuple[str, ...]
    stacks: str
