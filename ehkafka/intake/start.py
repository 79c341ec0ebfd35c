"""Start positions: where a partition begins when its group has no committed offset.

A group commit always wins: an operator's rewind is never undone. Without one, the position comes from
here and from nowhere else: there is no silent default.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

FixedStart = str | int | datetime | timedelta
Start = FixedStart | Callable[[str, int], FixedStart]

_WORDS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
_EXPLANATION = (
    "'earliest', 'latest', an offset (int ≥ 0), a datetime with time zone, a timedelta to go back, "
    "or a callable (topic, partition) -> one of these"
)


def check_start(start: Any) -> None:
    """Refuse what is no start position. Raises `ConfigurationError`."""
    if start is None:
        raise ConfigurationError(
            f"start is missing: say where a group without a committed offset begins: {_EXPLANATION}."
        )
    wrong = (
        (isinstance(start, str) and start not in _WORDS)
        or isinstance(start, bool)
        or (isinstance(start, int) and start < 0)
        or (isinstance(start, datetime) and start.tzinfo is None)
        or (isinstance(start, timedelta) and start < timedelta(0))
        or not (isinstance(start, str | int | datetime | timedelta) or callable(start))
    )
    if wrong:
        raise ConfigurationError(f"start={start!r} is no start position; give {_EXPLANATION}.")


def start_offsets(
    consumer: Consumer, start: Start, partitions: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the offset to begin at for each partition; `OFFSET_BEGINNING` stays symbolic.

    `latest` and times are looked up and become numbers: the caller commits them at once, so that a
    rebalance before the first commit does not skip what arrived in between. Poll thread only; may wait
    for the broker up to `timeout_s` seconds. Raises `ConfigurationError`, `EndpointError`.
    """
    wanted = {partition: _fixed(start, partition) for partition in partitions}
    offsets: dict[TopicPartition, int] = {}
    lookups: dict[TopicPartition, int] = {}
    for partition, position in wanted.items():
        if isinstance(position, int):
            offsets[partition] = position
        elif position == "earliest":
            offsets[partition] = OFFSET_BEGINNING
        else:
            lookups[partition] = OFFSET_END if position == "latest" else _milliseconds(position)
    if lookups:
        offsets |= _look_up(consumer, lookups, timeout_s)
    return offsets


def _fixed(start: Start, partition: TopicPartition) -> FixedStart:
    if not callable(start):
        return start
    try:
        position = start(partition.topic, partition.partition)
        check_start(position)
    except Exception as error:
        raise ConfigurationError(f"The start callable failed for {partition}: {error!r}.") from error
    return position


def _milliseconds(position: FixedStart) -> int:
    moment = datetime.now(UTC) - position if isinstance(position, timedelta) else position
    assert isinstance(moment, datetime)
    return max(0, int(moment.timestamp() * 1000))


def _look_up(
    consumer: Consumer, lookups: dict[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int]:
    asked = [KafkaPartition(*partition, offset) for partition, offset in lookups.items()]
    found: dict[TopicPartition, int] = {}
    for answer in consumer.offsets_for_times(asked, timeout=timeout_s):
        partition = TopicPartition(answer.topic, answer.partition)
        if answer.error is not None:
            raise EndpointError(f"The start offset of {partition} could not be looked up: {answer.error}.")
        # A time after the last record has no offset: that is the end.
        found[partition] = answer.offset
    past_end = [p for p, offset in found.items() if offset < 0]
    for partition in past_end:
        _, high = consumer.get_watermark_offsets(KafkaPartition(*partition), timeout=timeout_s)
        found[partition] = high
    return found
