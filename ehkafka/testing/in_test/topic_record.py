"""What a test sees of records: keys, values and headers as text wherever they are text. Values only."""

from __future__ import annotations

from collections import UserList
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from ehkafka.recovery.letters.letter import LetterOrigin, headers_back, letter_origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import Record

Text = str | bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A record of a topic. Made by `AppTest.outputs`. Texts are `str`, or `bytes` that are no UTF-8."""

    # The topic's name.
    topic: str
    # The partition's number.
    partition: int
    # The record's position there.
    offset: int
    # None: it has none.
    key: Text
    # None: a tombstone.
    value: Text
    # Of several of one name the last one; `record` has all of them, as bytes.
    headers: Mapping[str, Text]
    # Milliseconds since 1970.
    timestamp_ms: int
    # The same as a handler gets it.
    record: Record = field(repr=False, compare=False)

    def json(self) -> Any:
        """Return the value, read as JSON. Raises `orjson.JSONDecodeError`, a `ValueError`, if it is none."""
        return orjson.loads(self.value or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord(TopicRecord):
    """A dead letter: a `TopicRecord` with its own headers only, and the reason. Made by `AppTest.letters`."""

    # The error's type and text, or what else the letter says of it.
    reason: str
    # How often the handler was called; None: the letter does not say.
    attempts: int | None
    # The name of its function or class; empty: the letter does not say.
    handler: str
    # All that the letter says of it; None: no app wrote it.
    origin: LetterOrigin | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled(TopicRecord):
    """A `TopicRecord` that a handler has finished. Made by `AppTest.handled`."""

    # The name of its function or class.
    handler: str
    # The number of the attempt that finished it, from 1.
    attempt: int


class HandledRecords(UserList[Handled]):
    """Records in the order in which their handlers finished them. Made by `AppTest.handled`."""

    def of(self, topic: str) -> list[Handled]:
        """Return those of one topic.

        - `topic` (required): its name.
        """
        return [one for one in self.data if one.topic == topic]

    def by(self, handler: str) -> list[Handled]:
        """Return those of one handler.

        - `handler` (required): the name of its function or class.
        """
        return [one for one in self.data if one.handler == handler]


def topic_record(record: Record) -> TopicRecord:
    """Return a record as a test sees it."""
    return TopicRecord(**_fields(record, record.headers()))


def dead_letter_of(record: Record) -> DeadLetterRecord:
    """Return a record of a topic for dead letters; what no app has written there says nothing of itself."""
    origin = letter_origin(record)
    if origin is None:
        return DeadLetterRecord(
            **_fields(record, record.headers()), reason="", attempts=None, handler="", origin=None
        )
    # The last one says how often it came back, once it goes back.
    own = headers_back(record, origin)[:-1]
    return DeadLetterRecord(
        **_fields(record, own),
        reason=origin.error_text,
        attempts=origin.attempts,
        handler=origin.handler,
        origin=origin,
    )


def handled_of(record: Record, handler: str, attempt: int) -> Handled:
    """Return a record that a handler has finished."""
    return Handled(**_fields(record, record.headers()), handler=handler, attempt=attempt)


def _fields(record: Record, headers: Any) -> dict[str, Any]:
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "key": _text(record.key()),
        "value": _text(record.value()),
        "headers": {name: _text(value) for name, value in headers},
        "timestamp_ms": record.timestamp()[1],
        "record": record,
    }


def _text(value: str | bytes | None) -> Text:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
