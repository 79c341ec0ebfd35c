"""What `App.handler` and `App.configure` take by name, so that editors know each and check its value.

For type checkers: `**settings: Unpack[AppSettings]`. `python -m tests.typing.declared` writes
the classes out of what is declared at `Settings`, `HandlerSpec`, `BatchSpec` and `SparkOptions`, with its
first sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os
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
    from ehkafka.workers.option import WorkersOption


class AppSettings(TypedDict, total=False):
    """The fields of `Settings` without `group` and `start`, which `App` names itself."""

    reset: bool | str
    """Default `False`: true: at each start the group is taken back to start; a name: once under that name."""

    on_no_group_offsets: OnNoGroupOffsets
    """Default `"mirror"`: where to begin without a commit: at the mirror if there is one, or at start."""

    on_out_of_range: OutOfRange
    """Default `"stop"`: what to do when the log no longer has the next offset."""

    max_age: timedelta | None
    """A timedelta, default `None`: records older than this are skipped, counted and committed past."""

    assignor: Assignor
    """Default `"default"`: default can share a group with plain clients; cooperative-sticky moves fewer
    partitions.
    """

    instance_id: str | None
    """Default `None`: static membership: a restart within the session time-out moves no partition."""

    commit_interval_s: float | None
    """Seconds, default `None`: time between two commits, and how much a crash repeats; if not set, 1 s, less
    on Apache Kafka.
    """

    commit_every_records: int | None
    """Records, default `None`: commits earlier after so many records; on Event Hubs still 1 s apart."""

    commit_idle_s: float | None
    """Seconds, default `None`: sends an unchanged position again before it expires; on Event Hubs 6 h if not
    set.
    """

    exactly_once: ExactlyOnce
    """Default `False`: outputs and offsets in one transaction; preview tries it on Event Hubs, too."""

    backlog_records_max: int
    """Records, default `50000`: received records without a result; from half on, stuck partitions pause."""

    backlog_bytes_max: int
    """Bytes, default `134217728`: the same in bytes of their values, keys and headers."""

    consume_records_max: int
    """Records, default `1000`: records taken from the client library at a time."""

    parked_records_max: int
    """Records, default `100000`: records that wait with failing ones, not counted in the backlog."""

    parked_bytes_max: int
    """Bytes, default `134217728`: the same in bytes of their values, keys and headers."""

    on_parked_full: OnParkedFull
    """Default `"pause_partition"`: what a partition does when its share of this budget is full."""

    stop_s: float
    """Seconds, default `25.0`: time to finish what is started when the app stops; Kubernetes kills after 30
    s.
    """

    drain: Drain | bool
    """Default `"started"`: what a stop finishes: started (and what lies below, if that fits), all, or
    running.
    """

    drain_s: float
    """Seconds, default `10.0`: time to finish what runs when a partition is taken away."""

    connect_s: float
    """Seconds, default `15.0`: time to reach the broker at the start."""

    stuck_s: float
    """Seconds, default `300.0`: age of an unfinished record, or of lag without progress, at which health
    turns red.
    """

    unreachable_s: float
    """Seconds, default `15.0`: time without an answer of any broker, or of one leader, at which health turns
    red.
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
    """Default `{}`: librdkafka's properties for the producers of outputs, dead letters and `app.producer`."""


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
    """Default `None`: where partitions of its topics begin that have no commit of the group."""

    max_age: timedelta | None
    """A timedelta, default `None`: older records of its topics are skipped, counted and committed past."""

    retry: Retry | RetryFunction
    """Default `Retry(attempts=1)`: when a record that failed is retried."""

    on_failure: FailurePolicy | None
    """Default `None`: what happens when no attempt is left: `Stop()`, `Hold()`, `Skip()` or `DeadLetter(…)`.
    """

    to: str | Sequence[str] | None
    """Default `None`: the topic, or topics, that it sends to: what it returns goes to the first one, a `Send`
    to its own.
    """


class OfRecords(OfHandlers, total=False):
    """Options of `App.handler` that are the same for records and for messages."""

    workers: WorkersOption
    """Default `16`: how many records run at the same time (or auto), or in how many processes."""

    acknowledged: Acknowledged
    """Default `"before_commit"`: what waits for the broker's acknowledgement of a record's outputs: its
    commit, or `"before_next"`: the next record of its key as well.
    """

    deadline_s: float | None
    """Seconds, default `None`: how long one call may take."""

    rate_limit: float | None
    """Calls per second, default `None`: how many calls may start in a second, retries included."""


class OfPayloads(TypedDict, total=False):
    """Options of handlers that take records, whose payloads are decoded."""

    order_by: Callable[[Record], Hashable]
    """Default `by_key`: the key of a record, as a function of it."""

    value: Any
    """A type, default `None`: what a payload is decoded to."""

    decoder: Decoder | None
    """A function, default `None`: decodes the payload, called with its bytes, or with these and the record.
    """


class HandlerOptions(OfRecords, OfPayloads, total=False):
    """Options of `App.handler`."""


class RawHandlerOptions(OfRecords, total=False):
    """Options of `App.handler(raw=True)`."""

    order_by: Callable[[KafkaMessage], Hashable]
    """Default `by_key`: the key of a record, as a function of it."""


class BatchHandlerOptions(OfHandlers, OfPayloads, total=False):
    """Options of `App.batch_handler`."""

    workers: int
    """Default `4`: how many batches run at the same time."""

    batch_records_max: int
    """Records, default `500`: a batch is full with so many records."""

    batch_bytes_max: int | None
    """Bytes, default `None`: a batch is full with so many bytes of values."""

    wait_s_max: float
    """Seconds, default `1.0`: how long a batch waits after its first record came."""


class SparkKeywords(TypedDict, total=False):
    """Options of `App.run_on_spark`."""

    checkpoint: str | os.PathLike[str] | None
    """Default `None`: a folder that the driver can write to."""

    new_checkpoint: bool
    """Default `False`: begin at the group's commits, although the checkpoint has other positions."""

    available_now: bool
    """Default `False`: end when what is there at the start is handled."""

    interval_s: float | None
    """Seconds, default `None`: time from the start of one batch to the next."""

    max_records_per_batch: int
    """Records, default `200000`: a batch takes no more."""

    source_options: Mapping[str, str] | None
    """Default `None`: options of `format("ehkafka")`, such as `bootstrap`."""

    folders: tuple[str, ...]
    """Default `()`: where executors on this machine look for modules."""
