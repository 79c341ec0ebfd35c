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
    """Default `False`: true moves the group back to `start` at each run; a text names a reset that is done
    once.
    """

    on_no_group_offsets: OnNoGroupOffsets
    """Default `"mirror"`: where the group begins to read a partition without a commit: at the mirror's
    position, or at start.
    """

    on_out_of_range: OutOfRange
    """Default `"stop"`: what the app does if the log no longer has the next offset."""

    max_age: timedelta | None
    """A timedelta, default `None`: age above which records are skipped and counted."""

    assignor: Assignor
    """Default `"default"`: default lets plain clients share the group; cooperative-sticky moves fewer
    partitions.
    """

    instance_id: str | None
    """Default `None`: name of a static member, whose restart within the session time-out moves no partition.
    """

    commit_interval_s: float | None
    """Seconds, default `None`: time between two commits, whose records a crash repeats; default: 1 s, less on
    Apache Kafka.
    """

    commit_every_records: int | None
    """Records, default `None`: number of records after which the app commits early; on Event Hubs, still 1 s
    apart.
    """

    commit_idle_s: float | None
    """Seconds, default `None`: time after which an unchanged position is committed again; if not set, 6 h on
    Event Hubs.
    """

    exactly_once: ExactlyOnce
    """Default `False`: true commits outputs and offsets in one transaction; preview also tries this on Event
    Hubs.
    """

    backlog_records_max: int
    """Records, default `50000`: limit of received, unfinished records; when half of the limit is used, stuck
    partitions pause.
    """

    backlog_bytes_max: int
    """Bytes, default `134217728`: limit of the bytes of received, unfinished records: values, keys and
    headers.
    """

    consume_records_max: int
    """Records, default `1000`: how many records the app takes from the client library at a time."""

    parked_records_max: int
    """Records, default `100000`: limit of records that wait for a retry, are on hold or follow such a record;
    not part of the backlog.
    """

    parked_bytes_max: int
    """Bytes, default `134217728`: limit of the bytes of the waiting records: values, keys and headers."""

    on_parked_full: OnParkedFull
    """Default `"pause_partition"`: what happens when a partition has reached its share of the limits for
    waiting records.
    """

    stop_s: float
    """Seconds, default `25.0`: how long a stop can take to finish the started records; Kubernetes kills a pod
    after 30 s.
    """

    drain: Drain | bool
    """Default `"started"`: which records a stop finishes: started and earlier ones, all received ones, or
    only running ones.
    """

    drain_s: float
    """Seconds, default `10.0`: how long running calls can take when a partition is revoked."""

    connect_s: float
    """Seconds, default `15.0`: how long the app tries to reach the broker at the start."""

    stuck_s: float
    """Seconds, default `300.0`: age of an unfinished record, or time of a lag without progress, at which
    health turns red.
    """

    unreachable_s: float
    """Seconds, default `15.0`: time without an answer from any broker, or from one leader, at which health
    turns red.
    """

    idle_s: float
    """Seconds, default `5.0`: time without new records of a partition until on_idle is called."""

    report_interval_s: float
    """Seconds, default `60.0`: time between two log lines of a handler (`HandlerReport`); 0 for no lines."""

    consumer: Mapping[str, Any]
    """Default `{}`: librdkafka properties of the consumer."""

    producer: Mapping[str, Any]
    """Default `{}`: librdkafka properties of the producers of outputs, dead letters and `app.producer`."""


class ChangedSettings(AppSettings, total=False):
    """What `App.configure` lays over an app's settings."""

    group: str
    """Required: the consumer group; on Event Hubs, up to 256 characters, and up to 1000 groups in a
    namespace.
    """

    start: Start
    """Required: where the group begins to read a partition without a commit; `App` lists the forms."""


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
    """Default `None`: where the handler begins to read a partition without a commit."""

    max_age: timedelta | None
    """A timedelta, default `None`: age above which records of the handler's topics are skipped and counted.
    """

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
    """Default `16`: how many records run at the same time (a number or auto), or in how many processes."""

    acknowledged: Acknowledged
    """Default `"before_commit"`: what waits for the broker's acknowledgement of a record's outputs: its
    commit, or `"before_next"`: the next record of its key as well.
    """

    deadline_s: float | None
    """Seconds, default `None`: how long one call can take."""

    rate_limit: float | None
    """Calls per second, default `None`: how many calls can start per second, retries included."""


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
    """Records, default `500`: number of records with which a batch is full."""

    batch_bytes_max: int | None
    """Bytes, default `None`: number of bytes of values with which a batch is full."""

    wait_s_max: float
    """Seconds, default `1.0`: how long a batch waits after its first record."""


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
