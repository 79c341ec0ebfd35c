"""Texts of single options read into values. Pure; every error names the option and what it takes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.properties.names import shown
from ehkafka.errors import ConfigurationError
from ehkafka.ranges.places import milliseconds
from ehkafka.records import TopicPartition
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What Kafka's protocol has room for: offsets and times, and the numbers of partitions.
_LARGEST = 2**63 - 1
_LAST_PARTITION = 2**31 - 1
_DIGITS_MAX = len(str(_LARGEST))
_DURATION = re.compile(r"([0-9]+) *(ms|s|m|min|h|d)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_ISO = "or a time with its zone, such as 2026-01-01T00:00:00Z"
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
# Kafka takes 249 characters, Event Hubs 256.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,256}")


def flag(name: str, text: str) -> bool:
    """Return a yes or no."""
    return word(name, text, "true", "false") == "true"


def word(name: str, text: str, *known: str) -> str:
    """Return one of the words that are known, in lower case as these are."""
    value = text.strip().lower()
    if value not in known:
        raise wrong(name, text, f"give {', '.join(known[:-1])} or {known[-1]}")
    return value


def count(name: str, text: str) -> int:
    """Return a whole number of 1 or more."""
    value = _whole(text)
    if value is None or not 1 <= value <= _LARGEST:
        raise wrong(name, text, f"give a whole number of 1 or more, up to {_LARGEST}")
    return value


def duration_s(name: str, text: str) -> float:
    """Return the seconds of a duration as Spark writes it: `15m`, `30s`; without a unit milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    number = None if found is None else _whole(found[1])
    if found is None or not number:
        raise wrong(name, text, "give a duration of 1 ms or more, such as 500ms, 30s, 15m or 1h")
    return number * _UNIT_S[found[2] or "ms"]


def moment_ms(name: str, text: str) -> int:
    """Return milliseconds since 1970; the text may also be a time with its zone (ISO 8601)."""
    value = _moment(text)
    if value is None:
        raise wrong(name, text, f"give milliseconds since 1970, such as 1767225600000, {_ISO}")
    return value


def moments_by_partition(name: str, text: str, example: str) -> tuple[tuple[TopicPartition, int], ...]:
    """Return the same of each partition, of `{"topic": {"0": 1767225600000}}`."""
    advice = f"give each partition milliseconds since 1970, such as {example}, {_ISO}"
    return _by_partition(name, text, example, advice, _moment)


def names(name: str, text: str) -> tuple[str, ...]:
    """Return what commas separate, each once."""
    found = tuple(dict.fromkeys(one.strip() for one in text.split(",")))
    if not all(found):
        raise wrong(name, text, "give names separated by commas, such as a,b")
    return found


def topics(name: str, text: str) -> tuple[str, ...]:
    """Return the topics that commas separate, each once."""
    found = names(name, text)
    for topic in found:
        _check_topic(name, text, topic)
    return found


def pattern(name: str, text: str | None) -> str | None:
    """Return a regular expression."""
    try:
        re.compile(text or "")
    except (re.error, RecursionError, OverflowError) as error:
        advice = (
            f"it is not a regular expression of Python ({error}): give one that matches whole names, "
            f"such as home-.*"
        )
        raise wrong(name, text or "", advice) from None
    return text


def partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of `{"topic": [0, 1]}`, each once."""
    example = '{"readings": [0, 1]}'
    return tuple(
        dict.fromkeys(
            TopicPartition(topic, number)
            for topic, numbers in _topics(name, text, example)
            for number in _list(name, text, numbers, example)
        )
    )


def by_partition(name: str, text: str, example: str, least: int) -> tuple[tuple[TopicPartition, int], ...]:
    """Return the numbers, `least` or more, of `{"topic": {"0": 23}}`."""
    advice = f"give a number for each partition, {least} or more, such as {example}"

    def read(value: object) -> int | None:
        return value if type(value) is int and least <= value <= _LARGEST else None

    return _by_partition(name, text, example, advice, read)


def wrong(name: str, text: str, advice: str) -> ConfigurationError:
    """Return what a bad value is refused with."""
    return ConfigurationError(f"Option {name}: {shown(name, text)} is not understood; {ended(advice)}")


def _by_partition(
    name: str, text: str, example: str, advice: str, read: Callable[[object], int | None]
) -> tuple[tuple[TopicPartition, int], ...]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _topics(name, text, example):
        if not isinstance(numbers, dict) or not numbers:
            raise wrong(name, text, advice)
        for number, value in numbers.items():
            partition = _whole(number)
            at = read(value)
            if partition is None or partition > _LAST_PARTITION or at is None:
                raise wrong(name, text, advice)
            where = TopicPartition(topic, partition)
            if where in found:  # as 1 and 01
                raise wrong(name, text, f"partition {partition} of topic {topic} is given twice")
            found[where] = at
    return tuple(sorted(found.items()))


def _moment(value: object) -> int | None:
    """Return milliseconds since 1970, the next one where a time has microseconds; None for anything else."""
    if type(value) is int:
        return value if 0 <= value <= _LARGEST else None
    if not isinstance(value, str):
        return None
    if (number := _whole(value)) is not None:
        return number if number <= _LARGEST else None
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if moment.utcoffset() is None:  # of which zone, only the user knows
        return None
    return milliseconds(moment) if moment >= _BEGIN else None


def _whole(text: str) -> int | None:
    """Return the number that the text is; None for anything else.

    `int` alone would take digits of every script, underscores and signs, and raise for thousands of digits.
    """
    digits = text.strip()
    if not digits.isascii() or not digits.isdecimal():
        return None
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _DIGITS_MAX else None


def _topics(name: str, text: str, example: str) -> Iterator[tuple[str, object]]:
    try:
        value = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        raise wrong(name, text, f"give JSON, such as {example}") from None
    if not isinstance(value, dict) or not value:
        raise wrong(name, text, f"give JSON, such as {example}")
    for topic, inner in value.items():
        _check_topic(name, text, topic)
        yield topic, inner


def _check_topic(name: str, text: str, topic: str) -> None:
    if _TOPIC.fullmatch(topic) is None:
        advice = "use 1 to 256 letters, digits, dots, dashes and underscores"
        raise wrong(name, text, f"{topic!r:.80} is not a topic's name, {advice}")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; Python would take the last one of two equal names and say nothing."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _list(name: str, text: str, numbers: object, example: str) -> list[int]:
    # An empty list would read another topic, the connection string's, or all of this one.
    if (
        not isinstance(numbers, list)
        or not numbers
        or not all(type(one) is int and 0 <= one <= _LAST_PARTITION for one in numbers)
    ):
        raise wrong(name, text, f"give the partitions' numbers, such as {example}")
    return numbers
