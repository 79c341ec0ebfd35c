"""Asks the broker, and waits, for the first and last offsets of logs and for a group's commits."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import refused
from ehkafka.endpoint.client import describe_error
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.start import fixed
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.positions.start import FixedStart, Start


T = TypeVar("T")

# What a second answer gets where the first one took all the time.
_LEAST_S: Final = 0.1


def log_bounds(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, LogBounds]:
    """Return the bounds of each partition's log. Two requests per broker, however many partitions.

    Both are answered within `timeout_s` together.
    With `isolation.level=read_committed` the end is that of the last finished transaction. Raises
    `KafkaException`, for one partition too: what is asked again later asks for all.
    """
    found = known_bounds(consumer, partitions, timeout_s)
    return {partition: _answered(one) for partition, one in found.items()}


def known_bounds(
    consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float
) -> dict[TopicPartition, LogBounds | KafkaError]:
    """Return the same, or of each partition the error that its leader answered.

    Raises `KafkaException` where one leader does not answer at all: that hides what the others answered.
    """
    # In this order: a log that grows or is cut in between seems longer, never shorter, than it is.
    ends_s = time.monotonic() + timeout_s
    starts = _ask(consumer, dict.fromkeys(partitions, OFFSET_BEGINNING), timeout_s)
    ends = _ask(consumer, dict.fromkeys(partitions, OFFSET_END), max(_LEAST_S, ends_s - time.monotonic()))
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
    """Return the first offset of each moment or later, below 0 where none is; errors as `log_bounds`.

    Where none is, the cluster is asked for its name: an embedded broker knows no times, so its logs are read.
    """
    ends_s = time.monotonic() + timeout_s
    found = {p: _answered(one) for p, one in _ask(consumer, moments_ms, timeout_s).items()}
    late = [KafkaPartition(*p, moments_ms[p]) for p, at in found.items() if at < 0]
    if not late:
        return found
    left_s = max(_LEAST_S, ends_s - time.monotonic())
    from ehkafka.embedded import by_time  # noqa: PLC0415 - where no record is as late, which is rare

    if by_time.is_embedded(cluster := consumer.list_topics(late[0].topic, timeout=left_s)):
        by_time.find_offsets(cluster, late, left_s)
        found |= {TopicPartition(one.topic, one.partition): one.offset for one in late}
    return found


def start_offsets(
    consumer: Consumer, start: Start, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the offset to begin at for each partition; `OFFSET_BEGINNING` stays symbolic.

    `latest` and times are looked up and become numbers: the caller commits them at once, so that a
    rebalance before the first commit does not skip what arrived in between. Poll thread only; may wait
    for the broker up to `timeout_s` seconds, and for a callable as long as it takes: the group waits for
    it, and drops this member after `max.poll.interval.ms`. Raises `ConfigurationError`, `KafkaException`.
    """
    offsets: dict[TopicPartition, int] = {}
    lookups: dict[TopicPartition, int] = {}
    for partition in partitions:
        position = fixed(start, partition)
        if isinstance(position, int):
            offsets[partition] = position
        elif position == "earliest":
            offsets[partition] = OFFSET_BEGINNING
        else:
            lookups[partition] = OFFSET_END if position == "latest" else _milliseconds(position)
    if lookups:
        found = offsets_at(consumer, lookups, timeout_s)
        # A time after the last record has no offset: that is the end.
        past_end = [partition for partition, offset in found.items() if offset < 0]
        offsets |= found | log_ends(consumer, past_end, timeout_s)
    return offsets


def _milliseconds(position: FixedStart) -> int:
    try:
        moment = datetime.now(UTC) - position if isinstance(position, timedelta) else position
    except OverflowError:  # before the year 1
        return 0
    assert isinstance(moment, datetime)
    return max(0, int(moment.timestamp() * 1000))


def commits_of(
    consumer: Consumer, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, KafkaPartition]:
    """Return what the consumer's group has committed, where it has; errors as `log_bounds`."""
    asked = [KafkaPartition(*partition) for partition in partitions]
    answers = consumer.committed(asked, timeout=timeout_s) if asked else []
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return {TopicPartition(a.topic, a.partition): a for a in answers if a.offset >= 0}


def learn_leaders(consumer: Consumer, timeout_s: float) -> None:
    """Have a client ask who leads: by itself it believes its last answer for minutes."""
    with suppress(KafkaException):  # it keeps what it knows
        consumer.list_topics(timeout=timeout_s)


def unanswered(error: KafkaException, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    """Return why partitions wait. Raises `EhkafkaError` where a broker refuses what waiting does not cure."""
    if (fatal := refused(error.args[0])) is not None:
        raise fatal from error
    # The client's word for partitions that none leads.
    is_leaderless = error.args[0].code() == ClientCode.UNKNOWN_PARTITION
    problem = "no broker leads it now" if is_leaderless else describe_error(error.args[0])
    why = f"the broker does not report where the log begins and ends: {ended(problem)}"
    return dict.fromkeys(partitions, why)


def _answered(answer: T | KafkaError) -> T:
    if isinstance(answer, KafkaError):
        raise KafkaException(answer)
    return answer


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
