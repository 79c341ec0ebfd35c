"""Where logs begin and end, and where a moment lies in them, asked of the broker.

Two requests per broker for the bounds, however many partitions. The answers wait for the broker; called
on the driver before each batch, and in tasks when a log did not hold what was wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from confluent_kafka import Consumer


class Bounds(NamedTuple):
    """A log's first offset, and the one after its last record."""

    start: int
    end: int


def log_bounds(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, Bounds]:
    """Return the bounds of each partition's log. Raises `KafkaException`, for one partition too."""
    # In this order: a log that grows or is cut in between seems longer, never shorter, than it is.
    starts = log_starts(consumer, partitions, timeout_s)
    ends = log_ends(consumer, partitions, timeout_s)
    return {partition: Bounds(starts[partition], ends[partition]) for partition in partitions}


def log_starts(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the first offset of each log; errors as `log_bounds`."""
    return _ask(consumer, dict.fromkeys(partitions, OFFSET_BEGINNING), timeout_s)


def log_ends(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each log; errors as `log_bounds`.

    With `isolation.level=read_committed` (the default) that of the last finished transaction.
    """
    return _ask(consumer, dict.fromkeys(partitions, OFFSET_END), timeout_s)


def offsets_at(
    consumer: Consumer, moments_ms: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int | None]:
    """Return the first offset of that moment or later, None where all are older; errors as `log_bounds`."""
    found = _ask(consumer, moments_ms, timeout_s)
    return {partition: offset if offset >= 0 else None for partition, offset in found.items()}


def _ask(
    consumer: Consumer, which: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int]:
    if not which:
        return {}
    # Not get_watermark_offsets: it asks for one partition at a time.
    asked = [KafkaPartition(*partition, offset) for partition, offset in which.items()]
    found = {}
    for answer in consumer.offsets_for_times(asked, timeout=timeout_s):
        if answer.error is not None:
            raise KafkaException(answer.error)
        found[TopicPartition(answer.topic, answer.partition)] = answer.offset
    return found
