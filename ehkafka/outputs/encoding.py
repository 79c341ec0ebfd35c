"""From what a call sends to messages in bytes: where they go, by what key, whether they fit.

Where the handler runs, be it in a worker process: what a user's types need to become bytes is there. What it
raises is the attempt's failure, before any later record of the key has run. Later the client would refuse it,
and that would look like a refusal of the broker.
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
    # topic, value, key, headers, partition (-1: as the key says), size in bytes, the content type of its
    # codec: in a tuple of plain values, because it travels.
    Made: TypeAlias = "tuple[str, bytes | None, bytes | None, MadeHeaders | None, int, int, str | None]"

CONTENT_TYPE = "content-type"
# What a record's frame takes in addition to value, key and headers, at most.
FRAME_BYTES = 128
PARTITION_MAX: Final = 2**31 - 1
ANY_PARTITION: Final = -1
# All of a call is kept until it ends.
CALL_BYTES_MAX: Final = 64 * 1_048_576

# What is one message as it is, and no `Send`, several of them or anything that would have to be run.
PLAIN = frozenset({bytes, str, dict})


@dataclass(frozen=True, slots=True)
class OutputMaker:
    """One handler's rules for what it sends. Plain values, which travel to worker processes."""

    handler: str
    topics: tuple[str, ...]
    bytes_max: int

    def made(self, message: Any, result: object) -> list[Made]:
        """Return what a call sends for a record, or a batch. Runs an iterator.

        Raises `TypeError` or `ValueError` for what cannot be sent.
        """
        if type(result) in PLAIN:
            return [self.plain(message, result)]
        return [self._one(message, one) for one in sends_of(result)]

    def plain(self, message: Any, given: object) -> Made:
        """Return what most handlers send, to the first topic with the record's key: made in short."""
        topic = self.topics[0]
        value, content_type = (given, None) if isinstance(given, bytes) else encoded(given)
        key, headers = self._own_key(message), encoded_headers(None, content_type)
        size = checked_size("an output", topic, value, key, headers, self.bytes_max)
        return _text(topic), value, key, headers, ANY_PARTITION, size, content_type

    def no_record(self) -> RuntimeError:
        """Return what is raised where a handler was given another record."""
        return RuntimeError(
            f"handler {self.handler!r} was given another record than it received, so it is not known for "
            "which record its outputs are: let middleware call call_next with the record that it got"
        )

    def _one(self, message: Any, given: Send) -> Made:
        topic = self.topics[0] if given.topic is None else given.topic
        if topic not in self.topics:
            raise ValueError(
                f"handler {self.handler!r} sends to {topic!r}, which is not among its topics "
                f"{', '.join(self.topics)}: name it in to=, so that it can be checked at the start"
            )
        value, content_type = encoded(given.value)
        key = self._own_key(message) if given.key is OWN_KEY else encoded_key(given.key)
        headers = encoded_headers(given.headers, content_type)
        size = checked_size("an output", topic, value, key, headers, self.bytes_max)
        if headers is not None:
            headers = [(_text(name), one) for name, one in headers]
        return _text(topic), value, key, headers, checked_partition(given.partition), size, content_type

    def _own_key(self, message: Any) -> bytes | None:
        try:
            # A handler of messages may have set any.
            key: bytes | None = encoded_key(message.key())
        except AttributeError:
            raise ValueError(
                f"batch handler {self.handler!r} returned an output without a key, and a batch has none of "
                "its own: return Send(value, key=…), with None for no key, or call record.send(…)"
            ) from None
        return partition_key_bytes(take_headers(message)) if key is None else key


def sends_too_much(where: str, size: int) -> ValueError:
    """Return what fails a call that sends more than `CALL_BYTES_MAX`; `where` is its record."""
    return ValueError(
        f"{where}: one call sends {size} bytes, and it may send {CALL_BYTES_MAX // 1_048_576} MiB at most, "
        "because nothing of it is sent before it returns. Send less for a record"
    )


def encoded(value: object) -> tuple[bytes | None, str | None]:
    """Return a value as bytes, and its content type where that says something.

    Raises `TypeError` or `ValueError` for what cannot be sent.
    """
    if value is None or type(value) is bytes:
        return value, None
    if isinstance(value, Send):
        raise TypeError(
            "a Send is a whole message and no value: return it as it is, or call record.send(value, key=…)"
        )
    codec = codec_of_value(value)
    return codec.encode(value), codec.content_type


def encoded_key(key: object) -> bytes | None:
    """Return a key as bytes. Raises `TypeError`."""
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"an output's key is a {type(key).__name__}: give bytes, text or None")


def encoded_headers(headers: Any, content_type: str | None) -> list[tuple[str, bytes | None]] | None:
    """Return headers as pairs, with the content type where none is given."""
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
    """Return how many bytes are sent. Raises `ValueError` with the sizes where they are too many."""
    size = len(value or b"") + len(key or b"")
    if headers:
        size += sum(len(name.encode()) + len(one or b"") for name, one in headers)
    if size + FRAME_BYTES > bytes_max:
        raise ValueError(
            f"{what} to {topic!r} has {size} bytes, and it may have {bytes_max - FRAME_BYTES} at most: send "
            "less, or raise the property message.max.bytes here and at the topic: "
            "App(producer={'message.max.bytes': …})"
        )
    return size


def checked_pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return headers as pairs of name and bytes. Raises `TypeError` or `ValueError` for what is none."""
    if not headers and (headers is None or isinstance(headers, Iterable)):
        return []
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise _no_headers(headers)
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_pair(one) for one in pairs]


def checked_partition(partition: Any) -> int:
    """Return a partition's number, -1 for none. Raises `ValueError`."""
    if partition is None:
        return ANY_PARTITION
    if type(partition) is not int or not ANY_PARTITION <= partition <= PARTITION_MAX:
        raise ValueError(
            f"an output's partition is {partition!r:.40}: give its number from 0 on, or None: the key decides"
        )
    return partition


def _pair(given: Any) -> tuple[str, bytes | None]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise _no_headers(given)
    name, value = given
    if not isinstance(name, str):
        raise TypeError(f"the name of an output's header is a {type(name).__name__}: give text")
    if "\0" in name:
        # The client would take what stands before it for the name.
        raise ValueError(f"the name {name!r} of an output's header has a NUL character: leave that out")
    if isinstance(value, str):
        value = value.encode()
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"header {name!r} of an output is a {type(value).__name__}: give text, bytes or None")
    return name, value


def _no_headers(given: Any) -> TypeError:
    return TypeError(
        f"among an output's headers is a {type(given).__name__}: give a mapping of names and values, or a "
        "list of (name, value)"
    )


def _text(text: str) -> str:
    """Return the text of what may be of a user's type, such as an enum's: that would not travel."""
    return text if type(text) is str else str.__str__(text)
