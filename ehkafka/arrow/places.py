"""What a user writes as `start` and `end`, as places in logs. Pure: the moment of the call is given."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ehkafka.arrow.ends import Ends
from ehkafka.errors import ConfigurationError
from ehkafka.ranges.places import EARLIEST, LATEST, AtOffsets, AtTime, AtWord, milliseconds
from ehkafka.records import TopicPartition
from ehkafka.settings.secret import quoted

if TYPE_CHECKING:
    from ehkafka.ranges.places import Place

Offset: TypeAlias = int | Literal["earliest", "latest", "now"]
Where: TypeAlias = str | int | datetime | timedelta | Mapping[int, Offset] | Ends

_OFFSETS = {"earliest": EARLIEST, "latest": LATEST, "now": LATEST}
_OFFSET_MAX = 2**63 - 1
_FORMS = (
    "give 'earliest', 'latest' or 'now'; a time with its zone, as a datetime or as text such as"
    " '2026-01-01T00:00:00Z'; a timedelta, to go back; an offset for every partition; a mapping of partitions"
    " to offsets; or the ends of an earlier reader"
)


def place_of(
    name: str, given: object, topic: str, partitions: Collection[TopicPartition], now: datetime
) -> Place:
    """Return the place; `name` is the argument's. Raises `ConfigurationError`."""
    if name == "start" and isinstance(given, Ends):
        return _of_ends(given, topic, partitions)
    if isinstance(given, Mapping):
        return AtOffsets(tuple(_offsets(name, given, topic)))
    if type(given) is int and 0 <= given <= _OFFSET_MAX:
        return AtOffsets(tuple((partition, given) for partition in partitions))
    if isinstance(given, str) and given in _OFFSETS:
        return AtWord("earliest" if given == "earliest" else "latest")
    moment = _moment(given, now)
    if moment is None:
        raise ConfigurationError(f"{name}={quoted(given)} is not understood: {_FORMS}.")
    # A partition without such a record has nothing to read from there on.
    return AtTime(milliseconds(moment), after_last="latest")


def check_order(start: Place, end: Place, now: datetime) -> None:
    """Refuse what can hold no record. Raises `ConfigurationError`."""
    if end == AtWord("earliest"):
        raise ConfigurationError("The range ends at earliest, so it has no record: give a later end.")
    if not isinstance(start, AtTime):
        return
    if (start.moment_ms or 0) > milliseconds(now):
        raise ConfigurationError(
            "The start is in the future, so no record is after it: give an earlier start."
        )
    if isinstance(end, AtTime) and (end.moment_ms or 0) < (start.moment_ms or 0):
        raise ConfigurationError("The end is before the start: correct the start or the end.")


def _moment(given: object, now: datetime) -> datetime | None:
    """Return an aware datetime; None for anything that means none."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            return None
    if isinstance(given, timedelta):
        if given < timedelta(0):
            return None
        try:
            return now - given
        except OverflowError:  # before the year 1
            return datetime.min.replace(tzinfo=UTC)
    # Of which zone a time without one is, only the user knows.
    return given if isinstance(given, datetime) and given.utcoffset() is not None else None


def _offsets(name: str, given: Mapping[Any, Any], topic: str) -> Iterator[tuple[TopicPartition, int]]:
    if not given:
        raise ConfigurationError(
            f"{name}={{}} names no partition: give an offset for each partition to read."
        )
    for number, at in given.items():
        offset = _OFFSETS.get(at, -1) if isinstance(at, str) else at
        is_offset = type(offset) is int and (0 <= offset <= _OFFSET_MAX or at in _OFFSETS)
        if type(number) is not int or number < 0 or not is_offset:
            raise ConfigurationError(
                f"{name} has {number!r:.80}: {quoted(at)}; give a partition's number, and the offset "
                f"as 0 or more, 'earliest' or 'latest'."
            )
        yield TopicPartition(topic, number), offset


def _of_ends(given: Ends, topic: str, partitions: Collection[TopicPartition]) -> AtOffsets:
    if given.topic != topic:
        raise ConfigurationError(
            f"The given ends belong to topic {given.topic!r}, but topic {topic!r} is read: give the ends "
            f"of topic {topic!r}, or another start."
        )
    offsets = tuple((one, at) for one, at in given.positions.items() if one in partitions)
    # Partitions that were added since have never been read.
    return AtOffsets(offsets, otherwise="earliest")
