"""What `App.handler` and `App.configure` take by name, so that editors know each and check its value.

For type checkers: `**settings: Unpack[AppSettings]`. `python -m tests.typing.declared` writes
the classes out of what is declared: at `Settings`, `HandlerSpec` and `BatchSpec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from datetime import timedelta

    from confluent_kafka import Message as KafkaMessage

    from ehkafka.codecs.codec import Decoder
    from ehkafka.handlers.spec import Acknowledged
    from ehkafka.headers import HeaderMode
    from ehkafka.lanes.order import NullKey, Scope
    from ehkafka.positions.start import Start
    from ehkafka.records import Record
    from ehkafka.recovery.policy import FailurePolicy
    from ehkafka.recovery.retry import Retry, RetryFunction
    from ehkafka.settings.settings import (
        Assignor,
        Drain,
        ExactlyOnce,
        OnNoGroupOffsets,
        OnParkedFull,
        OutOfRange,
    )
    from ehkafka.workers.auto import WorkersOption


class AppSettings(TypedDict, total=False):
    """The fields of `Settings` without `group` and `start`, which `App` names itself."""

    reset: bool | str
    """Default `False`: true: at each start the group is taken back to start; a name: once under that name.
    The group must have no members (else `GroupInUseError`). The commits' metadata keep the name, so all
    replicas and restarted containers may be given it.
    """

    on_no_group_offsets: OnNoGroupOffsets
    """Default `"mirror"`: where to begin without a commit: at the mirror if there is one, or at start.
    `"mirror"` begins at the app's mirror, if it has one that knows the partition, else at `start`; `"start"`
    always at `start`; `"fail"` ends the app instead.
    """

    on_out_of_range: OutOfRange
    """Default `"stop"`: what to do when the log no longer has the next offset. Retention deleted it, or the
    log was truncated or recreated: `"stop"` ends the app, `"earliest"` continues at the log's start,
    `"latest"` at its end. `OffsetGap` logs the size of the gap each time.
    """

    max_age: timedelta | None
    """A timedelta, default `None`: records older than this are skipped, counted and committed past. A
    record's age when it is received counts, by its timestamp; records without a timestamp are handled.
    """

    assignor: Assignor
    """Default `"default"`: default can share a group with plain clients; cooperative-sticky moves fewer
    partitions.
    """

    instance_id: str | None
    """Default `None`: static membership: a restart within the session time-out moves no partition."""

    commit_interval_s: float | None
    """Seconds, default `None`: time between two commits, and how much a crash repeats; if not set, 1 s, less
    on Apache Kafka. There a commit follows as soon as 100 results are not committed, 50 ms after the last
    commit at the earliest. On Event Hubs commits are at least 1 s apart, also if this is less.
    """

    commit_every_records: int | None
    """Records, default `None`: commits earlier after so many records; on Event Hubs still 1 s apart."""

    commit_idle_s: float | None
    """Seconds, default `None`: sends an unchanged position again before it expires; on Event Hubs 6 h if not
    set. Elsewhere never, if not set.
    """

    exactly_once: ExactlyOnce
    """Default `False`: outputs and offsets in one transaction; preview tries it on Event Hubs, too. Dead
    letters are in it as well, so that readers with `isolation.level=read_committed` see each record's once.
    It is committed every 0.1 s if `commit_interval_s` is not set. `docs/exactly-once.md` has the promise.
    """

    backlog_records_max: int
    """Records, default `50000`: received records without a result; from half on, stuck partitions pause."""

    backlog_bytes_max: int
    """Bytes, default `134217728`: the same in bytes of their values, keys and headers."""

    consume_records_max: int
    """Records, default `1000`: records taken from the client library at a time."""

    parked_records_max: int
    """Records, default `100000`: records that wait with failing ones, not counted in the backlog. They are
    behind a failed record until its retry or an action on its key. Each partition has an equal share: a
    failing key with 10 records a second fills a share of 6000 records in 10 minutes.
    """

    parked_bytes_max: int
    """Bytes, default `134217728`: the same in bytes of their values, keys and headers."""

    on_parked_full: OnParkedFull
    """Default `"pause_partition"`: what a partition does when its share of this budget is full.
    `"pause_partition"` pauses it, `"dead_letter"` is for its largest waiting key, `"stop"` ends all.
    """

    stop_s: float
    """Seconds, default `25.0`: time to finish what is started when the app stops; Kubernetes kills after 30
    s.
    """

    drain: Drain | bool
    """Default `"started"`: what a stop finishes: started (and what lies below, if that fits), all, or
    running. `"started"`: the records that have started, and those before them in their partition if `stop_s`
    allows; `"all"` (or True): all that were received; `"running"` (or False): those that run now.
    """

    drain_s: float
    """Seconds, default `10.0`: time to finish what runs when a partition is taken away. At most half of
    max.poll.interval.ms is used.
    """

    connect_s: float
    """Seconds, default `15.0`: time to reach the broker at the start."""

    stuck_s: float
    """Seconds, default `300.0`: age of an unfinished record, or of lag without progress, at which health
    turns red.
    """

    unreachable_s: float
    """Seconds, default `15.0`: time without an answer of any broker, or of one leader, at which health turns
    red. So does this time without partitions after all were lost.
    """

    idle_s: float
    """Seconds, default `5.0`: silence of a partition until on_idle is called."""

    report_interval_s: float
    """Seconds, default `60.0`: between two lines of the log on what each handler does (`HandlerReport`); 0
    for none.
    """

    consumer: Mapping[str, Any]
    """Default `{}`: librdkafka's properties."""

    producer: Mapping[str, Any]
    """Default `{}`: librdkafka's properties for the producers of outputs, dead letters and `app.producer`.
    Examples are `partitioner` (`"murmur2_random"` if not set), `linger.ms`, `compression.type`.
    """


class ChangedSettings(AppSettings, total=False):
    """What `App.configure` lays over an app's settings."""

    group: str
    """Required: the consumer group; on Event Hubs at most 256 characters, 1000 groups in a namespace."""

    start: Start
    """Required: where a partition begins that has no commit of the group; `App` has the forms."""


class OfHandlers(TypedDict, total=False):
    """Options that all handlers have."""

    scope: Scope
    """Default `"partition"`: where equal keys count as one: within a `"partition"`, or in all partitions and
    topics of the `"handler"`.
    """

    null_key: NullKey
    """Default `"spread"`: how records without a key are ordered: `"spread"` not at all, `"partition"` as one
    key of their partition.
    """

    headers: HeaderMode
    """Default `"auto"`: how `Record.properties` decodes: `"auto"` (AMQP values or text on Event Hubs, text
    elsewhere), `"amqp"`, or `"raw"` for the bytes; `ehkafka.headers.modes` has the rules.
    """

    start: Start | None
    """Default `None`: where partitions of its topics begin that have no commit of the group. `None`: at the
    app's `start`.
    """

    max_age: timedelta | None
    """A timedelta, default `None`: older records of its topics are skipped, counted and committed past.
    `None`: those older than the app's `max_age`.
    """

    retry: Retry | RetryFunction
    """Default `Retry(attempts=1)`: when a record that failed is retried. Its key waits meanwhile, others do
    not.
    """

    on_failure: FailurePolicy | None
    """Default `None`: what happens when no attempt is left: `Stop()`, `Hold()`, `Skip()` or `DeadLetter(…)`.
    `None`: `Stop()`.
    """

    to: str | Sequence[str] | None
    """Default `None`: the topic, or topics, that it sends to: what it returns goes to the first one, a `Send`
    to its own. All of a call is sent once it has ended well, what `record.send(…)` was given, too; what a
    batch handler returns has keys of its own, and all records of the batch wait for it. `None`: it sends
    nothing.
    """


class OfRecords(OfHandlers, total=False):
    """Options of `App.handler` that are the same for records and for messages."""

    workers: WorkersOption
    """Default `16`: how many records run at the same time (or auto), or in how many processes. Threads run
    them, or one event loop as tasks of an `async def`. `"auto"` or `Auto(2, 64)`: as many as the app finds to
    be of use. `Processes(4)`: in 4 processes, for what is bound by the CPU.
    """

    acknowledged: Acknowledged
    """Default `"before_commit"`: what waits for the broker's acknowledgement of a record's outputs: its
    commit, or `"before_next"`: the next record of its key as well.
    """

    deadline_s: float | None
    """Seconds, default `None`: how long one call may take. Then a coroutine is cancelled, a process is ended,
    and the attempt has failed; a thread cannot be stopped, so it is reported and health turns red. `None`: no
    limit.
    """

    rate_limit: float | None
    """Calls per second, default `None`: how many calls may start in a second, retries included. At once after
    a rest a tenth of it, 1 at least. `None`: no limit.
    """


class OfPayloads(TypedDict, total=False):
    """Options of handlers that take records, whose payloads are decoded."""

    order_by: Callable[[Record], Hashable]
    """Default `by_key`: the key of a record, as a function of it. Records of equal keys are handled one after
    another, in order; others at the same time.
    """

    value: Any
    """A type, default `None`: what a payload is decoded to. `None`: the type of the annotation, if there is
    one.
    """

    decoder: Decoder | None
    """A function, default `None`: decodes the payload, called with its bytes, or with these and the record.
    `None`: JSON, text or bytes, as the type wants it.
    """


class HandlerOptions(OfRecords, OfPayloads, total=False):
    """Options of `App.handler`."""


class RawHandlerOptions(OfRecords, total=False):
    """Options of `App.handler(raw=True)`."""

    order_by: Callable[[KafkaMessage], Hashable]
    """Default `by_key`: the key of a record, as a function of it. Records of equal keys are handled one after
    another, in order; others at the same time.
    """


class BatchHandlerOptions(OfHandlers, OfPayloads, total=False):
    """Options of `App.batch_handler`."""

    workers: int
    """Default `4`: how many batches run at the same time. Threads run them, or one event loop as tasks of an
    `async def`.
    """

    batch_records_max: int
    """Records, default `500`: a batch is full with so many records."""

    batch_bytes_max: int | None
    """Bytes, default `None`: a batch is full with so many bytes of values. `None`: no limit."""

    wait_s_max: float
    """Seconds, default `1.0`: how long a batch waits after its first record came. 0: not at all."""
