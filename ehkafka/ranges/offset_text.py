"""Positions, and records by which their logs are recognised, as JSON in one spelling. Pure.

Positions have the shape of Spark's own Kafka connector, `{"topic": {"0": 23}}`. Records take about 16
characters for each partition: offset and timestamp, packed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ehkafka.positions.same_log import WitnessRecord
from ehkafka.progress.ranges_forms import read_varint, varint
from ehkafka.records import TopicPartition

_TIMESTAMP_BYTES: Final = 6
_FIELD_MAX: Final = 2**63 - 1

Positions = Mapping[TopicPartition, int]
Witnesses = Mapping[TopicPartition, WitnessRecord]


def is_sayable(witness: WitnessRecord) -> bool:
    """Tell whether an offset can carry this record; a producer may have given it any timestamp."""
    offset, timestamp_ms = witness
    return 0 <= offset <= _FIELD_MAX and 0 <= timestamp_ms < 1 << 8 * _TIMESTAMP_BYTES


def by_topic(positions: Positions) -> dict[str, dict[str, int]]:
    """Return positions by topic, sorted: equal positions have equal text."""
    value: dict[str, dict[str, int]] = {}
    for partition in sorted(positions):
        value.setdefault(partition.topic, {})[str(partition.partition)] = positions[partition]
    return value


def positions_of(topics: Any) -> dict[TopicPartition, int]:
    """Return the positions of what `by_topic` made. Raises `AttributeError`, `TypeError` or `ValueError`."""
    positions = {}
    for topic, numbers in topics.items():
        for number, offset in numbers.items():
            if not number.isdecimal() or type(offset) is not int or offset < 0:
                raise ValueError(number)
            positions[TopicPartition(topic, int(number))] = offset
    return positions


def packed(witnesses: Witnesses) -> dict[str, str]:
    """Return a text for each topic: about 16 characters a partition, half of what numbers in JSON take.

    Spark keeps three of these texts in each progress of a query, and 500 partitions are no rarity.
    """
    joined: dict[str, bytearray] = {}
    for topic, number in sorted(witnesses):
        offset, timestamp_ms = witnesses[TopicPartition(topic, number)]
        record = varint(number) + varint(offset) + timestamp_ms.to_bytes(_TIMESTAMP_BYTES)
        joined.setdefault(topic, bytearray()).extend(record)
    return {topic: base64.urlsafe_b64encode(records).decode("ascii") for topic, records in joined.items()}


def witnesses_of(texts: Any) -> dict[TopicPartition, WitnessRecord]:
    """Return the records of what `packed` made; errors as `positions_of`."""
    found = {one: record for topic, text in texts.items() for one, record in _unpacked(topic, text)}
    if packed(found) != texts:
        # Several texts could say the same, and who compares texts would take them for several.
        raise ValueError(texts)
    return found


def _unpacked(topic: str, text: str) -> Iterator[tuple[TopicPartition, WitnessRecord]]:
    records, position = base64.b64decode(text, altchars=b"-_", validate=True), 0
    while position < len(records):
        number, position = read_varint(records, position)
        offset, position = read_varint(records, position)
        moment = records[position : position + _TIMESTAMP_BYTES]
        position += _TIMESTAMP_BYTES
        yield TopicPartition(topic, number), (offset, int.from_bytes(moment))
