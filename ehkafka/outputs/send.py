"""What a handler sends: a value, or a `Send` with key, topic, headers or partition. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, Final

from ehkafka.records.payload_types import is_structured


class _OwnKey:
    def __repr__(self) -> str:
        return "<the record's key>"


OWN_KEY: Final[Any] = _OwnKey()
"""Means the key of the record that is handled."""

Headers = Sequence[tuple[str, str | bytes | None]] | Mapping[str, str | bytes | None]


@dataclass(frozen=True, slots=True, repr=False)
class Send:
    """One message to be sent: returned by a handler, as the only one or among several.

    - `value` (required): bytes, text, or a value for JSON; None is a tombstone.
    - `key` (default: the record's): bytes, text, or None for a message without one. The record's is its key,
      else the partition key of an AMQP producer.
    - `topic` (default `None`): one of the handler's `to=`; None: the first of them.
    - `headers` (default `None`): name and value pairs, or a mapping.
    - `partition` (default `None`): its number. None: the key decides.
    """

    value: object
    key: bytes | str | None = OWN_KEY
    topic: str | None = None
    headers: Headers | None = None
    partition: int | None = None

    def __repr__(self) -> str:
        # Never the value or headers: they may hold what must not be logged.
        return f"<Send to {self.topic or 'the handler’s topic'} key={self.key!r}>"


def is_output(kind: object) -> bool:
    """Tell whether a type is meant to be sent. A handler may return a bool or a number for other reasons."""
    return kind in (Send, bytes, dict) or is_structured(kind)


def sends_of(result: object) -> Iterator[Send]:
    """Yield the messages in a handler's result: a list, tuple or iterator has several. Runs an iterator.

    A NamedTuple is one value, like a dataclass.
    """
    if result is None:
        return
    if isinstance(result, Send):
        yield result
    elif isinstance(result, tuple) and hasattr(result, "_fields"):
        yield Send(result)
    elif isinstance(result, list | tuple | GeneratorType | Iterator):
        for one in result:
            # None sends nothing, also as one of several.
            if one is not None:
                yield one if isinstance(one, Send) else Send(one)
    else:
        yield Send(result)
