"""The record as handed to a handler.

Pure: no threads, no clock, no I/O. `Record` wraps the `confluent_kafka.Message` that librdkafka
produced and adds nothing until it is asked to, because one is made for every record on the hot path.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, cast

import orjson

from ehkafka.headers import reading
from ehkafka.headers.taking import take_headers
from ehkafka.records.deferral import DEADLINE_S, Deferred, defer

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as KafkaMessage
    from confluent_kafka._types import HeadersType

    from ehkafka.headers import HeaderMode, Value
    from ehkafka.records.message import Headers, Message

# Stands for the record's own key.
_OWN: Any = object()
# The last second that a datetime can say.
_TIMESTAMP_MS_MAX = 253_402_300_799_000


class Record:
    """One Kafka record as handed to a handler. Made by the app; in tests by `ehkafka.testing.make_record`.

    A record has all reading methods of `confluent_kafka.Message` with the same meaning, so a handler for a
    `Message` works with a `Record` unchanged. `attempt` is the number of calls of the handler for this
    record, from 1.

    Values of the headers (`properties`, `partition_key`, `content_type`, …) are decoded at each access: if
    you need a value twice, keep it in a variable.
    """

    __slots__ = ("_message", "attempt")

    # How `properties` decodes. The class carries it, so that a record stays as small and as quick to make:
    # see `record_type`.
    _header_mode: ClassVar[HeaderMode] = "auto"
    _event_hubs: ClassVar[bool] = False
    # Where its handler's outputs go; None where it has none. Of a class for each such handler.
    _outlet: ClassVar[Any] = None

    def __init__(self, message: Message, attempt: int = 1) -> None:
        self._message = message
        self.attempt = attempt

    @property
    def message(self) -> KafkaMessage:
        """A `confluent_kafka.Message` only for this call: changes to it have no effect on other calls.

        Made at the first access. A retry or a dead letter has the record as it was received.
        """
        self._message = message = own_copy(self._message)
        return cast("KafkaMessage", message)

    def key(self) -> bytes | None:
        """Return the record's key as produced, `None` when it has none."""
        return self._message.key()

    def value(self) -> bytes | None:
        """Return the payload, `None` for a tombstone."""
        return self._message.value()

    def topic(self) -> str:
        """Return the topic's name."""
        return self._message.topic()

    def partition(self) -> int:
        """Return the partition's number."""
        return self._message.partition()

    def offset(self) -> int:
        """Return the record's position in its partition (on Event Hubs: the sequence number)."""
        return self._message.offset()

    def leader_epoch(self) -> int | None:
        """Return the leader epoch that the record was written in, `None` when unknown."""
        return self._message.leader_epoch()

    def timestamp(self) -> tuple[int, int]:
        """Return (type, milliseconds since 1970); the type is one of confluent_kafka's TIMESTAMP_*."""
        return self._message.timestamp()

    def headers(self) -> Headers:
        """Return the headers in order, as a new list; empty if the record has no headers."""
        return [*take_headers(self._message)]

    def latency(self) -> float | None:
        """Return `None`: only a producer's delivery report has a latency."""
        return self._message.latency()

    def error(self) -> KafkaError | None:
        """Return `None`: an error never reaches a handler as a record."""
        return self._message.error()

    if TYPE_CHECKING:
        # All that `__getattr__` finds, by name, so that an editor knows a mistyped one.
        def set_key(self, key: object) -> None:
            """Set the key of `message`."""

        def set_value(self, value: object) -> None:
            """Set the value of `message`."""

        def set_topic(self, topic: str) -> None:
            """Set the topic of `message`."""

        def set_headers(self, headers: HeadersType) -> None:
            """Set the headers of `message`."""

        def set_error(self, error: KafkaError | None) -> None:
            """Set the error of `message`."""

        def deserialized_key(self) -> Any:
            """Return the key: only a `DeserializingConsumer` changes it."""

        def deserialized_value(self) -> Any:
            """Return the value: only a `DeserializingConsumer` changes it."""

        def delivery_count(self) -> int | None:
            """Return `None`: only a share consumer counts deliveries."""

    else:

        def __getattr__(self, name: str) -> Any:
            """Everything else that a `Message` can do (`set_value`, `delivery_count`, …) is the message's."""
            if name == "_message":  # not set yet: copy and pickle ask an empty object
                raise AttributeError(name)
            return getattr(self.message if name.startswith("set_") else self._message, name)

    def __len__(self) -> int:
        """Return the length of the value in bytes, 0 for a tombstone."""
        return len(self._message)

    # `__len__` would make an empty value falsy; a record is always something.
    def __bool__(self) -> bool:
        return True

    def defer(self, deadline_s: float = DEADLINE_S) -> Deferred:
        """Keep this record unfinished after the handler returns, until your code answers the returned token.

        Call `token.finish()` or `token.fail(error)` once, from any thread or task. Until then, the key waits,
        no worker is busy, and the commit does not pass the record. `ehkafka.defer` has the rules.

        - `deadline_s` (seconds, default `300.0`): if no answer comes within this time, the attempt fails; up
          to a week.
        """
        return defer(self._message, deadline_s)

    def send(
        self,
        value: Any,
        key: Any = _OWN,
        topic: str | None = None,
        headers: Any = None,
        partition: int | None = None,
    ) -> None:
        """Send a message after a successful call; the record is committed after the message is written.

        Arguments are those of `Send`. Only for handlers with `to=`. If the call raises or skips the record,
        the message is never sent. For a deferred record, `finish()` sends the message. After the call, `send`
        raises `RuntimeError`. If a message cannot be sent, or if a call sends more than 64 MiB, `send` raises
        `ValueError` or `TypeError`.
        """
        if self._outlet is None:
            raise RuntimeError(
                f"{self.where}: its handler has no topic for outputs: add to=, such as @app.handler('in', "
                f"to='out')"
            )
        given = {} if key is _OWN else {"key": key}
        self._outlet.send(self._message, value, topic=topic, headers=headers, partition=partition, **given)

    def json(self) -> Any:
        """Parse the value as JSON. If it is not JSON, raises `orjson.JSONDecodeError`, a `ValueError`."""
        return orjson.loads(self._message.value() or b"")

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header with this name; None if there is none.

        - `name` (required): the header's name; upper and lower case differ.
        """
        return next((value for key, value in reversed(self.headers()) if key == name), None)

    @property
    def properties(self) -> dict[str, Value]:
        """The decoded headers without the service's annotations (`x-opt-…`), as in the Event Hubs SDKs.

        If several headers have the same name, the last one counts; `headers()` has all of them, as bytes.
        The handler's option `headers=` sets how they are decoded: see `ehkafka.headers.modes`.
        """
        return reading.properties(self._message, self._header_mode, event_hubs=self._event_hubs)

    @property
    def system_properties(self) -> dict[str, Value]:
        """The decoded annotations of the service (`x-opt-…`) and the standard properties (`message-id`, …).

        The standard properties are in `properties`, too, because a Kafka producer may use their names.
        """
        return reading.system_properties(self._message, self._header_mode, event_hubs=self._event_hubs)

    @property
    def partition_key(self) -> str | bytes | None:
        """The partition key of an AMQP or HTTPS producer, otherwise the record's key; text if it is UTF-8."""
        return reading.partition_key(self._message)

    @property
    def content_type(self) -> str | None:
        """The `content-type` header (any case of letters), `None` when there is none."""
        return reading.content_type(self._message)

    @property
    def schema_id(self) -> str | None:
        """The schema's ID in the Azure schema registry, from a content type `avro/binary+<id>`, or None."""
        return reading.schema_id(self._message)

    @property
    def sequence_number(self) -> int:
        """The offset, under the name that the Event Hubs SDKs give it."""
        return self._message.offset()

    @property
    def enqueued_time(self) -> datetime | None:
        """The same as `time`, under the name that the Event Hubs SDKs give it."""
        return self.time

    @property
    def time(self) -> datetime | None:
        """The record's timestamp in UTC (on Event Hubs: when it was enqueued); None if there is none.

        Also None if a producer wrote a timestamp before 1970 or after the year 9999.
        """
        return moment_of(*self._message.timestamp())

    @property
    def where(self) -> str:
        """Topic, partition and offset as `topic[partition]@offset`, for logs and errors."""
        return f"{self.topic()}[{self.partition()}]@{self.offset()}"

    def __repr__(self) -> str:
        # Never the value or headers: they may hold what must not be logged.
        return f"<Record {self.where} key={self.key()!r} attempt={self.attempt} {len(self)} bytes>"


class _EventHubsRecord(Record):
    """A record whose headers may be AMQP values or text."""

    __slots__ = ()
    _event_hubs = True


class _AmqpRecord(Record):
    """A record whose headers are AMQP values."""

    __slots__ = ()
    _header_mode = "amqp"


class _UndecodedRecord(Record):
    """A record whose headers stay bytes."""

    __slots__ = ()
    _header_mode = "raw"


def own_copy(message: Message) -> Message:
    """Return a message that its reader may change, with the engine's own as `received`; a copy as it is."""
    if not hasattr(message, "set_value") or hasattr(message, "received"):
        return message  # nothing can be set in it, as in a worker process's, or it is a copy
    own: Any = _own_kind(type(message))(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=[*take_headers(message)] or None,
        timestamp=message.timestamp(),
        leader_epoch=-1 if (epoch := message.leader_epoch()) is None else epoch,
    )
    own.received = message
    return own  # type: ignore[no-any-return]


@functools.cache
def _own_kind(kind: type) -> type:
    return type(kind.__name__, (kind,), {"__slots__": ("received",), "__module__": kind.__module__})


def record_type(mode: HeaderMode, *, event_hubs: bool) -> type[Record]:
    """Return the kind of `Record` that decodes headers in this mode. Chosen once, when an app starts."""
    if mode == "auto":
        return _EventHubsRecord if event_hubs else Record
    return _AmqpRecord if mode == "amqp" else _UndecodedRecord


def sending_type(kind: type[Record], outlet: object) -> type[Record]:
    """Return a kind of record that sends by this outlet."""
    return type(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__, "_outlet": outlet})


def moment_of(kind: int, milliseconds: int) -> datetime | None:
    """Return the moment that a message's timestamp says, `None` for one that says none."""
    if not kind or not 0 <= milliseconds <= _TIMESTAMP_MS_MAX:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
