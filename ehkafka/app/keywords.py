"""What `App.handler` and `App.configure` take by name, so that editors know each and check its value.

For type checkers: `**options: Unpack[HandlerOptions]`. The words are those of `App.handler`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ehkafka.settings.keywords import AppSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
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
    from ehkafka.workers.auto import WorkersOption


class ChangedSettings(AppSettings, total=False):
    """What `App.configure` lays over an app's settings."""

    group: str
    """The consumer group."""

    start: Start
    """Where a partition begins that has no commit of the group."""


class OfRecords(TypedDict, total=False):
    """Options of `App.handler` that are the same for records and for messages."""

    scope: Scope
    """Default `"partition"`: where equal keys count as one: within a `"partition"`, or in all partitions
    and topics of the `"handler"`.
    """

    null_key: NullKey
    """Default `"spread"`: how records without a key are ordered: `"spread"` not at all, `"partition"` as
    one key of their partition.
    """

    headers: HeaderMode
    """Default `"auto"`: how `Record.properties` decodes: `"auto"` (AMQP values or text on Event Hubs,
    text elsewhere), `"amqp"`, or `"raw"` for the bytes; `ehkafka.headers.modes` has the rules.
    """

    start: Start | None
    """Default `None`: where partitions of these topics begin. `None`: as the app's `start` says."""

    max_age: timedelta | None
    """A timedelta, default `None`: skip older records of these topics. `None`: as the app's `max_age`
    says.
    """

    on_failure: FailurePolicy | None
    """Default `None`: what happens when no attempt is left: `Stop()`, `Hold()`, `Skip()` or
    `DeadLetter(…)`. `None`: `Stop()`.
    """

    workers: WorkersOption
    """Default `16`: how many records run at the same time: on threads, or as tasks of one event loop for
    an `async def`. `"auto"` or `Auto(2, 64)`: as many as the app finds to be of use. `Processes(4)`: in 4
    processes, for what is bound by the CPU.
    """

    retry: Retry | RetryFunction
    """Default `Retry(attempts=1)`: when a record whose handler raised is retried. Its key waits
    meanwhile, others do not.
    """

    deadline_s: float | None
    """Seconds, default `None`: how long one call may take. Then a coroutine is cancelled, a process is
    ended, and the attempt has failed; a thread cannot be stopped, so it is reported and health turns red.
    `None`: no limit.
    """

    rate_limit: float | None
    """Calls per second, default `None`: how many calls may start, retries included; at once after a rest a
    tenth of it, 1 at least. `None`: no limit.
    """

    to: str | Sequence[str] | None
    """Default `None`: the topic, or topics, that it sends to: what it returns goes to the first one, a
    `Send` where it says. All of a call is sent once it has ended well, what `record.send(…)` was given, too.
    `None`: it sends nothing.
    """

    acknowledged: Acknowledged
    """Default `"before_commit"`: what waits for the broker's acknowledgement of a record's outputs: its
    commit, or `"before_next"`: the next record of its key as well.
    """


class HandlerOptions(OfRecords, total=False):
    """Options of `App.handler`."""

    order_by: Callable[[Record], Hashable]
    """Default `by_key`: the key of a record, as a function of it. Records of equal keys are handled one
    after another, in order; others at the same time.
    """

    value: Any
    """A type, default `None`: what a payload is decoded to. `None`: what the handler's annotation says, if it
    says anything.
    """

    decoder: Decoder | None
    """A function, default `None`: decodes the payload, called with its bytes, or with these and the record.
    `None`: JSON, text or bytes, as the type wants it.
    """


class RawHandlerOptions(OfRecords, total=False):
    """Options of `App.handler(raw=True)`."""

    order_by: Callable[[KafkaMessage], Hashable]
    """Default `by_key`: the key of a record, as a function of it. Records of equal keys are handled one
    after another, in order; others at the same time.
    """
