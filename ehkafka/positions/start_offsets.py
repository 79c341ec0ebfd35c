"""Turns start positions into offsets, and asks the broker for those that are a time or the log's end.

Called on the poll thread, and by what reads or moves a group from outside.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from ehkafka.positions.log_bounds import log_ends, offsets_at
from ehkafka.positions.start import fixed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

    from ehkafka.positions.start import FixedStart, Start
    from ehkafka.records import TopicPartition


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
