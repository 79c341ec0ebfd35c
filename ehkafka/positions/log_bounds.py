"""Where logs begin and end, asked of the broker. Waits for the answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem
from ehkafka.positions.gap import LogBounds
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from confluent_kafka import Consumer

    from ehkafka.events import Event

T = TypeVar("T")

# A look-up that failed is retried so many times; all together stay well inside max.poll.interval.ms.
LOOKUP_TRIES = 7
# The wait after the first refusal, doubled after each, 6 s in all: the leader of a topic that was just made
# may not know it yet, and one that comes back needs seconds.
AGAIN_S = 0.1


def insist(find: Callable[[], T], what: str, emit: Callable[[Event], None]) -> T:
    """Return what is found, in several tries. Raises `EndpointError` after the last one."""
    for tries_left in reversed(range(LOOKUP_TRIES)):
        if tries_left < LOOKUP_TRIES - 1:
            time.sleep(AGAIN_S * 2 ** (LOOKUP_TRIES - 2 - tries_left))
        try:
            return find()
        except KafkaException as error:
            text = describe_error(error.args[0])
            emit(ConnectionProblem(error.args[0].name(), text, fatal=not tries_left))
            if not tries_left:
                raise EndpointError(
                    f"{what} could not be read from the broker in {LOOKUP_TRIES} tries: {text}"
                ) from error
    raise AssertionError("unreachable: the last try returns or raises")


def log_bounds(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, LogBounds]:
    """Return the bounds of each partition's log. Two requests per broker, however many partitions.

    With `isolation.level=read_committed` the end is that of the last finished transaction. Raises
    `KafkaException`, for one partition too: what is asked again later asks for all.
    """
    # In this order: a log that grows or is cut in between seems longer, never shorter, than it is.
    starts = log_starts(consumer, partitions, timeout_s)
    ends = log_ends(consumer, partitions, timeout_s)
    return {partition: LogBounds(starts[partition], ends[partition]) for partition in partitions}


def known_bounds(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, LogBounds | KafkaError]:
    """Return the same, or of each partition the error that its leader answered.

    Raises `KafkaException` where one leader does not answer at all: that hides what the others answered.
    """
    starts = _ask(consumer, dict.fromkeys(partitions, OFFSET_BEGINNING), timeout_s)
    ends = _ask(consumer, dict.fromkeys(partitions, OFFSET_END), timeout_s)
    return {partition: _joined(starts[partition], ends[partition]) for partition in partitions}


def log_starts(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the first offset of each log; errors as `log_bounds`."""
    return offsets_at(consumer, dict.fromkeys(partitions, OFFSET_BEGINNING), timeout_s)


def log_ends(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each log; errors as `log_bounds`."""
    return offsets_at(consumer, dict.fromkeys(partitions, OFFSET_END), timeout_s)


def offsets_at(
    consumer: Consumer, moments_ms: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the first offset of each moment or later, below 0 where none is; errors as `log_bounds`."""
    found = _ask(consumer, moments_ms, timeout_s)
    for answer in found.values():
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
    return found  # type: ignore[return-value]


def _joined(start: int | KafkaError, end: int | KafkaError) -> LogBounds | KafkaError:
    if isinstance(start, KafkaError):
        return start
    return end if isinstance(end, KafkaError) else LogBounds(start, end)


def _ask(
    consumer: Consumer, which: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int | KafkaError]:
    # Not get_watermark_offsets: it asks for one partition at a time.
    asked = [KafkaPartition(*partition, offset) for partition, offset in which.items()]
    answers = consumer.offsets_for_times(asked, timeout=timeout_s) if asked else []
    return {TopicPartition(one.topic, one.partition): one.error or one.offset for one in answers}
