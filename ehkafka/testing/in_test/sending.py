"""Sends a test's records to its broker. Used by the thread that runs the test."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import Producer

from ehkafka.codecs import codec_of_value
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import KafkaError, Message

    Headers = Mapping[str, Any] | Iterable[tuple[str, Any]]

_ANY_PARTITION = -1
_NOW = 0
_MESSAGE_TIMEOUT_MS = 10_000


class Sender:
    """One producer. `send` returns at once; `flush` waits until the broker has all that was sent."""

    def __init__(self, bootstrap: str) -> None:
        # Keys meet those of Java's producers, and so whatever the app itself sends by them.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 0,
                "partitioner": "murmur2_random",
                "message.timeout.ms": _MESSAGE_TIMEOUT_MS,
            }
        )
        self._refused: list[str] = []

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: str | bytes | None,
        headers: Headers | None,
        partition: int | None,
        timestamp: datetime | int | None,
    ) -> None:
        """Send one record. Raises `ConfigurationError` for what is none."""
        where = f"send({topic!r}, …)"
        try:
            self._producer.produce(
                topic,
                bytes_of(value, f"{where}: value"),
                text_of(key, f"{where}: key"),
                partition=_ANY_PARTITION if partition is None else partition,
                headers=headers_of(headers, where),
                timestamp=milliseconds_of(timestamp, where),
                on_delivery=self._on_delivery,
            )
        except (KafkaException, BufferError) as refusal:
            raise EndpointError(f"{where}: the record was refused at once: {refusal}.") from refusal
        self._producer.poll(0)

    def close(self) -> None:
        """Let go of the broker; what is not acknowledged by now is given up."""
        self._producer.purge()
        # Else it says on stderr that messages without an answer are in it.
        self._producer.poll(0)
        # Its connections end with the object.
        del self._producer

    def flush(self) -> None:
        """Wait for the broker's answers. Raises `EndpointError` for records that it did not take."""
        left = self._producer.flush(_MESSAGE_TIMEOUT_MS / 1000 + 1.0)
        refused, self._refused = self._refused, []
        if left:
            refused.append(f"{left} records have no answer")
        if refused:
            raise EndpointError(
                f"{len(refused)} records of this test were not taken by the embedded broker: {refused[0]}."
            )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(f"one for {message.topic()}: {error.str()}")


def bytes_of(value: object, what: str) -> bytes | None:
    """Return a value as it is sent: by its codec, which is JSON for most. Raises `ConfigurationError`."""
    if value is None or isinstance(value, bytes):
        return value
    try:
        return codec_of_value(value).encode(value)
    except (TypeError, ValueError) as refusal:
        raise ConfigurationError(f"{what}: {ended(str(refusal))}") from None


def text_of(value: object, what: str) -> str | bytes | None:
    """Return a key or a header's value. Raises `ConfigurationError` for what is neither text nor bytes."""
    if value is None or isinstance(value, str | bytes):
        return value
    raise ConfigurationError(f"{what}: a {type(value).__name__} is neither text nor bytes, nor None.")


def headers_of(headers: Headers | None, where: str) -> list[tuple[str, str | bytes | None]] | None:
    """Return headers in order. Raises `ConfigurationError`."""
    if headers is None:
        return None
    if isinstance(headers, str | bytes) or not hasattr(headers, "__iter__"):
        raise ConfigurationError(
            f"{where}: headers: give a dict of names and values, or a list of (name, value)."
        )
    pairs = headers.items() if hasattr(headers, "items") else headers
    found = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ConfigurationError(
                f"{where}: headers: give a dict of names and values, or a list of (name, value)."
            )
        found.append((pair[0], text_of(pair[1], f"{where}: header {pair[0]!r}")))
    return found


def milliseconds_of(timestamp: datetime | int | None, where: str) -> int:
    """Return when a record was made, in milliseconds since 1970; 0 for now. Raises `ConfigurationError`."""
    if timestamp is None:
        return _NOW
    if isinstance(timestamp, datetime):
        # As everywhere in Python, one without a zone is local time.
        return math.floor(timestamp.astimezone(UTC).timestamp() * 1000)
    if isinstance(timestamp, bool) or not isinstance(timestamp, int) or not 0 < timestamp < 2**63:
        raise ConfigurationError(
            f"{where}: timestamp={timestamp!r}: give a datetime, milliseconds since 1970, or None for now."
        )
    return timestamp
