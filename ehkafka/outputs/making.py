"""From what a call returns to messages in bytes: where they go, by what key, whether they fit.

Where the handler runs, be it in a worker process: what a user's types need to become bytes is there. What it
raises is the attempt's failure, before any later record of the key has run: a value that cannot be encoded, a
topic that is none of the handler's, a message that is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ehkafka.headers.partition_key import partition_key_bytes
from ehkafka.headers.taking import take_headers
from ehkafka.outputs.encoding import (
    ANY_PARTITION,
    checked_partition,
    checked_size,
    encoded,
    encoded_headers,
    encoded_key,
)
from ehkafka.outputs.send import OWN_KEY, Send, sends_of

if TYPE_CHECKING:
    MadeHeaders: TypeAlias = "list[tuple[str, bytes | None]]"
    # topic, value, key, headers, partition (-1: as the key says), size in bytes, the content type of its
    # codec: in a tuple of plain values, because it travels.
    Made: TypeAlias = "tuple[str, bytes | None, bytes | None, MadeHeaders | None, int, int, str | None]"

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


def _text(text: str) -> str:
    """Return the text of what may be of a user's type, such as an enum's: that would not travel."""
    return text if type(text) is str else str.__str__(text)


def sends_too_much(where: str, size: int) -> ValueError:
    """Return what fails a call that sends more than `CALL_BYTES_MAX`; `where` is its record."""
    return ValueError(
        f"{where}: one call sends {size} bytes, and it may send {CALL_BYTES_MAX // 1_048_576} MiB at most, "
        "because nothing of it is sent before it returns. Send less for a record"
    )
