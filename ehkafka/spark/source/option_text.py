"""Texts of single options read into values. Pure; every error names the option and what it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.property_names import shown
from ehkafka.errors import ConfigurationError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRUE, _FALSE = "true", "false"


def flag(name: str, text: str) -> bool:
    """Return a yes or no."""
    value = text.strip().lower()
    if value not in {_TRUE, _FALSE}:
        raise wrong(name, text, "give true or false")
    return value == _TRUE


def count(name: str, text: str) -> int:
    """Return a whole number of 1 or more."""
    value = text.strip()
    if not value.isdecimal() or int(value) < 1:
        raise wrong(name, text, "give a whole number of 1 or more")
    return int(value)


def moment_ms(name: str, text: str) -> int:
    """Return milliseconds since 1970."""
    value = text.strip()
    if not value.isdecimal():
        raise wrong(name, text, "give milliseconds since 1970, such as 1767225600000")
    return int(value)


def names(name: str, text: str) -> tuple[str, ...]:
    """Return what commas separate, each once."""
    found = tuple(dict.fromkeys(one.strip() for one in text.split(",")))
    if not all(found):
        raise wrong(name, text, "give names separated by commas, such as a,b")
    return found


def partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Return the partitions of `{"topic": [0, 1]}`."""
    example = '{"readings": [0, 1]}'
    return tuple(
        TopicPartition(topic, number)
        for topic, numbers in _topics(name, text, example)
        for number in _list(name, text, numbers, example)
    )


def by_partition(name: str, text: str, example: str, least: int) -> tuple[tuple[TopicPartition, int], ...]:
    """Return the numbers, `least` or more, of `{"topic": {"0": 23}}`."""
    found = []
    for topic, numbers in _topics(name, text, example):
        if not isinstance(numbers, dict):
            raise wrong(name, text, f"give a number for each partition, such as {example}")
        for number, value in numbers.items():
            if not number.isdecimal() or type(value) is not int or value < least:
                raise wrong(name, text, f"give a number for each partition, such as {example}")
            found.append((TopicPartition(topic, int(number)), value))
    return tuple(sorted(found))


def wrong(name: str, text: str, advice: str) -> ConfigurationError:
    """Return what a bad value is refused with."""
    return ConfigurationError(f"Option {name}: {shown(name, text)} is not understood; {advice}.")


def _topics(name: str, text: str, example: str) -> Iterator[tuple[str, Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        raise wrong(name, text, f"give JSON, such as {example}") from None
    if not isinstance(value, dict) or not value:
        raise wrong(name, text, f"give JSON, such as {example}")
    yield from value.items()


def _list(name: str, text: str, numbers: Any, example: str) -> list[int]:
    # An empty list would read another topic, the connection string's, or all of this one.
    if (
        not isinstance(numbers, list)
        or not numbers
        or not all(type(one) is int and one >= 0 for one in numbers)
    ):
        raise wrong(name, text, f"give the partitions' numbers, such as {example}")
    return numbers
