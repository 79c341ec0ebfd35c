"""Makes what handlers are called with, for unit tests that need no broker and no app."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import TIMESTAMP_CREATE_TIME, Message

from ehkafka.errors import ConfigurationError
from ehkafka.records import Record
from ehkafka.records.batch import Batch
from ehkafka.records.record import record_type, sending_type
from ehkafka.testing.in_test.sending import bytes_of, headers_of, milliseconds_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ehkafka.headers import HeaderMode
    from ehkafka.testing.in_test.sending import Headers


def make_record(
    value: object = None,
    *,
    key: str | bytes | None = None,
    headers: Headers | None = None,
    topic: str = "test",
    partition: int = 0,
    offset: int = 0,
    timestamp: datetime | int | None = None,
    attempt: int = 1,
    header_mode: HeaderMode = "auto",
    event_hubs: bool = False,
) -> Record:
    """Return a record as a handler gets it.

    - `value` (default `None`): text, bytes, None, or a dict, list, dataclass or model, which becomes JSON.
    - `key` (default `None`): text or bytes.
    - `headers` (default `None`): a dict, or a list of (name, value).
    - `topic` (default `"test"`): the topic's name.
    - `partition` (default `0`): the partition's number.
    - `offset` (default `0`): its position there.
    - `timestamp` (default `None`): a datetime, or milliseconds since 1970. `None`: now.
    - `attempt` (default `1`): which call of the handler this is.
    - `header_mode` (default `"auto"`): how `properties` decodes, as a handler's `headers=`.
    - `event_hubs` (default `False`): whether it counts as one of Event Hubs for that.

    Raises `ConfigurationError` for what is no record.
    """
    for name, number, least in (("partition", partition, 0), ("offset", offset, 0), ("attempt", attempt, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ConfigurationError(f"make_record: {name}={number!r}: give a whole number from {least} on.")
    if not isinstance(topic, str) or not topic:
        raise ConfigurationError(f"make_record: topic={topic!r}: give a name.")
    pairs = headers_of(headers, "make_record")
    message = Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=_as_received(text_of(key, "make_record: key")),
        value=bytes_of(value, "make_record: value"),
        headers=None if pairs is None else [(name, _as_received(one)) for name, one in pairs],
        timestamp=(
            TIMESTAMP_CREATE_TIME,
            milliseconds_of(timestamp, "make_record") or time.time_ns() // 1_000_000,
        ),
    )
    kind = sending_type(record_type(header_mode, event_hubs=event_hubs), _NoWayOut())
    return kind(message, attempt)  # type: ignore[arg-type]


class _NoWayOut:
    """Stands where a running handler's outputs go."""

    def send(self, message: Message, _value: Any, **_given: Any) -> None:
        """Refuse: a test that wants to see outputs wants an app."""
        raise RuntimeError(
            f"{message.topic()}[{message.partition()}]@{message.offset()} is of make_record, and no app "
            "sends for it: run the app by ehkafka.testing.run, and look at t.outputs(topic)"
        )


def make_batch(records: Iterable[Record], *, values: Iterable[Any] | None = None) -> Batch[Any]:
    """Return a batch as a batch handler gets it, of records from `make_record`.

    - `records` (required): each with an offset of its own, as `Batch.fail` and `skip` find one by its place.
    - `values` (default `None`): for a handler of `Batch[Reading]`, the payload of each.

    Raises `ConfigurationError` for what is no record, and for more or fewer values than records.
    """
    if isinstance(records, Record):
        raise ConfigurationError("make_batch: one record is no batch: give a list of records.")
    given = tuple(records)
    for one in given:
        if not isinstance(one, Record):
            raise ConfigurationError(f"make_batch: a {type(one).__name__} is no record: use make_record(…).")
    places = [(one.topic(), one.partition(), one.offset()) for one in given]
    if len(set(places)) < len(places):
        raise ConfigurationError(
            "make_batch: two records have the same place: give each make_record(…) an offset= of its own."
        )
    if values is None:
        return Batch(given)
    payloads = list(values)
    if len(payloads) != len(given):
        raise ConfigurationError(
            f"make_batch: {len(payloads)} values for {len(given)} records: give one each."
        )
    return Batch(given, payloads)


def _as_received(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
