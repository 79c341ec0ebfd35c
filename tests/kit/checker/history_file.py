"""Histories on disk: one JSON object per line, safe against `kill -9` and shared by several processes.

Each line is one `os.write` on an O_APPEND descriptor: what was written survives the process (not the
machine), and lines of several processes never mix. The file may hold record keys, so only its owner
may read it. Written from the poll thread and every worker; read by one thread.

A key is reversible for what brokers and order functions produce, a stable text for the rest. Two equal keys
of the listed types are written so that they are equal again when read; an object of any other type becomes an
`OpaqueKey` of its `repr`.
"""

from __future__ import annotations

import heapq
import math
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import orjson

from ehkafka.errors import ConfigurationError
from ehkafka.records import TopicPartition
from tests.kit.checker import history_event as events
from tests.kit.checker.history import RecordingHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

# What a JSON reader keeps exact; orjson refuses integers beyond it.
_JSON_INT_MAX = 2**63 - 1


class OpaqueKey(NamedTuple):
    """Stands for a key that has no JSON form; equal when the `repr` was equal."""

    text: str


def encode_key(key: Hashable) -> object:
    """Return what JSON can hold: a scalar as it is, else `{"b": bytes}`, `{"t": tuple}` or `{"r": repr}`."""
    if key is None or isinstance(key, bool):
        return key
    # An enum member that is a str or an int equals its value, and shares a lane with it.
    if isinstance(key, str) and key.isascii():
        return str.__str__(key)
    if isinstance(key, int) and abs(key) <= _JSON_INT_MAX:
        return int(key)
    if isinstance(key, float) and math.isfinite(key):
        return float(key)
    if isinstance(key, bytes):
        return {"b": key.decode("latin-1")}
    if isinstance(key, OpaqueKey):
        return {"r": key.text}
    if isinstance(key, tuple):
        return {"t": [encode_key(part) for part in key]}
    return _encode_rare(key)


def decode_key(value: Any) -> Hashable:
    """Return the key that `encode_key` was given, or its `OpaqueKey`."""
    if not isinstance(value, dict):
        scalar: Hashable = value
        return scalar
    [(kind, content)] = value.items()
    if kind == "b":
        return str(content).encode("latin-1")
    if kind == "t":
        return tuple(decode_key(part) for part in content)
    if kind == "r":
        return OpaqueKey(content)
    msg = f"unknown kind of key {kind!r}"
    raise ValueError(msg)


def _encode_rare(key: Hashable) -> object:
    if isinstance(key, str):
        text = str.__str__(key)
        try:
            text.encode()
        except UnicodeEncodeError:  # a lone surrogate has no JSON form
            return {"r": ascii(text)}
        return text
    return {"r": ascii(key)}


_EVENTS = {
    kind.__name__: kind for kind in events.HistoryEvent.__subclasses__() if kind is not events.TornLine
}
# A quote inside a JSON string is escaped, so these bytes can only be the beginning of a line.
_LINE_START = b'{"at_ns":'


class JsonLinesHistory(RecordingHistory):
    """Appends to `path`; mode 0600 when it is new. Close it (or leave the context) on a graceful end."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.process_started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Write `ProcessStopped` and close the file. A second call does nothing."""
        if self._descriptor >= 0:
            self.process_stopped()
            os.close(self._descriptor)
            self._descriptor = -1

    def _store(self, event: events.HistoryEvent) -> None:
        line = encode_event(event)
        written = os.write(self._descriptor, line)
        # A full disk or a signal can cut a write short; the rest follows at once or raises.
        while written < len(line):
            written += os.write(self._descriptor, line[written:])


def encode_event(event: events.HistoryEvent) -> bytes:
    """Return the event as one line, newline included."""
    kind = type(event)
    line: dict[str, object] = {"at_ns": event.at_ns, "event": kind.__name__}
    for name in _FIELDS[kind]:
        value = getattr(event, name)
        encode = _ENCODERS.get(name)
        line[name] = value if encode is None else encode(value)
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def decode_event(line: bytes) -> events.HistoryEvent:
    """Return the event of a line. Raises `ValueError`, `KeyError` or `TypeError` if it is none."""
    content = orjson.loads(line)
    kind = _EVENTS[content.pop("event")]
    for name, decode in _DECODERS.items():
        if name in content:
            content[name] = decode(content[name])
    return kind(**content)


def read_history(paths: Iterable[str | os.PathLike[str]]) -> Iterator[events.HistoryEvent]:
    """Merge files by time into one possible order of the calls; memory does not grow with them.

    A process may be stopped between reading the clock and writing the line, so in a shared file times
    can step back. Such an event is placed where it was written, which lies within its call as well:
    what one call saw of another is never turned around. A torn line becomes a `TornLine`. Raises
    `ConfigurationError` for a line that no history has written.
    """
    # A merge never looks behind the head of a file: a time that steps back is simply next.
    return heapq.merge(*(_events_of_file(os.fspath(path)) for path in paths), key=lambda event: event.at_ns)


def _events_of_file(path: str) -> Iterator[events.HistoryEvent]:
    before_ns = 0
    with open(path, "rb") as file:  # noqa: PTH123  # the path may be of any kind
        for number, line in enumerate(file, start=1):
            for event in _events_of_line(path, number, line, before_ns):
                before_ns = event.at_ns
                yield event


def _events_of_line(path: str, number: int, line: bytes, at_ns: int) -> Iterator[events.HistoryEvent]:
    try:
        yield decode_event(line)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if not _is_torn(line, error):
            raise ConfigurationError(
                f"{path}, line {number} is no line of a history ({type(error).__name__}); "
                "pass files that JsonLinesHistory has written"
            ) from error
    else:
        return
    yield events.TornLine(at_ns, 0, "", path, number)
    # Another process may have gone on in the same line, behind the torn beginning.
    behind = line.rfind(_LINE_START)
    if behind > 0:
        yield from _events_of_line(path, number, line[behind:], at_ns)


def _is_torn(line: bytes, error: Exception) -> bool:
    """Tell whether a line begins as every line does and is not JSON only because its end is missing."""
    begins_well = _LINE_START.startswith(line.rstrip(b"\n")[: len(_LINE_START)])
    return begins_well and isinstance(error, orjson.JSONDecodeError)


def _encode_partition(partition: TopicPartition) -> list[object]:
    return [partition.topic, partition.partition]


def _encode_next_offsets(next_offsets: dict[TopicPartition, int]) -> list[list[object]]:
    return [[name.topic, name.partition, value] for name, value in next_offsets.items()]


def _decode_partition(value: list[Any]) -> TopicPartition:
    topic, number = value
    return TopicPartition(topic, number)


def _decode_next_offsets(value: list[list[Any]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): next_offset for topic, number, next_offset in value}


_FIELDS = {kind: [field.name for field in fields(kind) if field.name != "at_ns"] for kind in _EVENTS.values()}
_ENCODERS: dict[str, Callable[[Any], object]] = {
    "partition": _encode_partition,
    "next_offsets": _encode_next_offsets,
    "key": encode_key,
}
_DECODERS: dict[str, Callable[[Any], object]] = {
    "partition": _decode_partition,
    "next_offsets": _decode_next_offsets,
    "key": decode_key,
    "offsets": tuple,
}
