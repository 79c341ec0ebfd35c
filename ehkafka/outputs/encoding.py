"""Turns the outputs of a call into messages in bytes, with topic, key and headers, and checks their size.

It runs where the handler runs, which may be a worker process: only there can values of a user's types become
bytes. Its exceptions fail the attempt, before a later record of the key has run. Without these checks the
client would refuse a message later, and that would look like a refusal by the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ehkafka.codecs.codec import codec_of_value
from ehkafka.headers.partition_key import partition_key_bytes
from ehkafka.headers.taking import take_headers
from ehkafka.outputs.send import OWN_KEY, Send, sends_of

if TYPE_CHECKING:
    MadeHeaders: TypeAlias = "list[tuple[str, bytes | None]]"
    # topic, value, key, headers, partition (-1: the key decides), size in bytes: a tuple of plain values,
    # because a worker process sends it to the app.
    Made: TypeAlias = "tuple[str, bytes | None, bytes | None, MadeHeaders | None, int, int]"

CONTENT_TYPE = "content-type"
# The most bytes that a record needs in addition to its value, key and headers.
FRAME_BYTES = 128
PARTITION_MAX: Final = 2**31 - 1
ANY_PARTITION: Final = -1
# All outputs of a call are kept until it ends.
CALL_BYTES_MAX: Final = 64 * 1_048_576

# Types whose values are one message: no `Send`, no list of messages, nothing that has to be run.
PLAIN = frozenset({bytes, str, dict})


@dataclass(frozen=True, slots=True)
class OutputMaker:
    """One handler's rules for its messages. Plain values, because worker processes get a copy."""

    handler: str
    topics: tuple[str, ...]
    bytes_max: int

    def made(self, message: object, result: object) -> list[Made]:
        """Return the messages in a call's result for a record or a batch. Runs an iterator.

        Raises `TypeError` or `ValueError` for a value that cannot be sent.
        """
        if type(result) in PLAIN:
            return [self.plain(message, result)]
        return [self._one(message, one) for one in sends_of(result)]

    def plain(self, message: object, given: object) -> Made:
        """Return the message for a plain value: to the first topic, with the record's key. The usual case."""
        topic = self.topics[0]
        value, content_type = (given, None) if isinstance(given, bytes) else encoded(given)
        key, headers = self._own_key(message), encoded_headers(None, content_type)
        size = checked_size("an output", topic, value, key, headers, self.bytes_max)
        return _text(topic), value, key, headers, ANY_PARTITION, size

    def no_record(self) -> RuntimeError:
        """Return the error for a handler that was called with another record."""
        return RuntimeError(
            f"a middleware called handler {self.handler!r} with a new record instead of the received record, "
            f"so the outputs belong to no known record: call call_next with the record that the middleware "
            f"received"
        )

    def _one(self, message: object, given: Send) -> Made:
        topic = self.topics[0] if given.topic is None else given.topic
        if topic not in self.topics:
            raise ValueError(
                f"handler {self.handler!r} sends to {topic!r}, which is not among its topics "
                f"{', '.join(self.topics)}: add the topic to to=, which ehkafka checks at the start"
            )
        value, content_type = encoded(given.value)
        key = self._own_key(message) if given.key is OWN_KEY else encoded_key(given.key)
        headers = encoded_headers(given.headers, content_type)
        size = checked_size("an output", topic, value, key, headers, self.bytes_max)
        if headers is not None:
            headers = [(_text(name), one) for name, one in headers]
        return _text(topic), value, key, headers, checked_partition(given.partition), size

    def _own_key(self, message: Any) -> bytes | None:
        try:
            # A handler of raw messages may have set any key.
            key: bytes | None = encoded_key(message.key())
        except AttributeError:
            raise ValueError(
                f"batch handler {self.handler!r} returned an output without a key, but a batch has no key: "
                f"return Send(value, key=…), with key=None for no key, or call record.send(…)"
            ) from None
        return partition_key_bytes(take_headers(message)) if key is None else key


def sends_too_much(where: str, size: int) -> ValueError:
    """Return the error for a call that sends more than `CALL_BYTES_MAX`; `where` is its record."""
    return ValueError(
        f"{where}: one call sends {size} bytes; the limit is {CALL_BYTES_MAX // 1_048_576} MiB, because all "
        "outputs of a call are kept until the call ends. Send less for each record"
    )


def encoded(value: object) -> tuple[bytes | None, str | None]:
    """Return a value as bytes, and its content type; None for bytes, which have none.

    Raises `TypeError` or `ValueError` for a value that cannot be sent.
    """
    if value is None or type(value) is bytes:
        return value, None
    if isinstance(value, Send):
        raise TypeError(
            "a Send cannot be the value of another message: return the Send itself, or call "
            "record.send(value, key=…)"
        )
    codec = codec_of_value(value)
    return codec.encode(value), codec.content_type


def encoded_key(key: object) -> bytes | None:
    """Return a key as bytes. Raises `TypeError`."""
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"the key of an output is of type {type(key).__name__}: give bytes, text or None")


def encoded_headers(headers: object, content_type: str | None) -> list[tuple[str, bytes | None]] | None:
    """Return headers as pairs. The content type is added unless the headers have one."""
    if headers is None and content_type is None:
        return None
    found = checked_pairs(headers)
    if content_type is not None and not any(name == CONTENT_TYPE for name, _ in found):
        found.append((CONTENT_TYPE, content_type.encode()))
    return found


def checked_size(
    what: str,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    headers: list[tuple[str, bytes | None]] | None,
    bytes_max: int,
) -> int:
    """Return the size in bytes. Raises `ValueError` with size and limit if it is too large."""
    size = len(value or b"") + len(key or b"")
    if headers:
        size += sum(len(name.encode()) + len(one or b"") for name, one in headers)
    if size + FRAME_BYTES > bytes_max:
        raise ValueError(
            f"{what} to {topic!r} has {size} bytes; the limit is {bytes_max - FRAME_BYTES}. Send less, or "
            "raise both App(producer={'message.max.bytes': …}) and the topic's max.message.bytes"
        )
    return size


def checked_pairs(headers: object) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs of name and bytes. Raises `TypeError` or `ValueError` for anything else."""
    if not headers and (headers is None or isinstance(headers, Iterable)):
        return []
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise _no_headers(headers)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_pair(one) for one in pairs]


def checked_partition(partition: object) -> int:
    """Return a partition's number, -1 for none. Raises `ValueError`."""
    if partition is None:
        return ANY_PARTITION
    if type(partition) is not int or not ANY_PARTITION <= partition <= PARTITION_MAX:
        raise ValueError(
            f"an output's partition is {partition!r:.40}: give 0 or more, or None to let the key decide"
        )
    return partition


def _pair(given: object) -> tuple[str, bytes | None]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise _no_headers(given)
    name, value = given
    if not isinstance(name, str):
        raise TypeError(f"the name of an output's header is of type {type(name).__name__}: give text")
    if "\0" in name:
        # The client would end the name at the NUL character.
        raise ValueError(
            f"the name {name!r} of an output's header contains a NUL character: remove that character"
        )
    if isinstance(value, str):
        value = value.encode()
    if value is not None and not isinstance(value, bytes):
        raise TypeError(
            f"header {name!r} of an output is of type {type(value).__name__}: give text, bytes or None"
        )
    return name, value


def _no_headers(given: object) -> TypeError:
    return TypeError(
        f"among an output's headers is a {type(given).__name__}: give a mapping of names and values, or a "
        "list of (name, value)"
    )


def _text(text: str) -> str:
    """Return a plain `str`: worker processes cannot send a subclass of the user's, such as an enum."""
    return text if type(text) is str else str.__str__(text)
