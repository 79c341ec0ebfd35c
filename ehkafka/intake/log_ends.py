"""Where the logs end, as the last fetch answers told: what lag and silence are judged by.

librdkafka keeps the high watermark of each answer that brought records or came empty without throttling;
nothing here asks the broker. Runs on the poll thread, which owns the consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.records import TopicPartition


def note_ends(consumer: Consumer, ends: dict[TopicPartition, int], assignments: Iterable[Assignment]) -> None:
    """Take over what librdkafka knows of the ends of these partitions."""
    for assignment in assignments:
        where = KafkaPartition(*assignment.partition)
        bounds: Any = consumer.get_watermark_offsets(where, cached=True)
        if bounds is None or bounds[1] < 0:
            continue
        end, received = bounds[1], assignment.received_next
        if received is not None and received < end <= consumer.position([where])[0].offset:
            end = received  # the rest were no records, such as the marks of a transaction
        ends[assignment.partition] = end


def note_passed_ends(
    consumer: Consumer, ends: dict[TopicPartition, int], received: Iterable[Assignment]
) -> None:
    """Look again where more was received than the end that was known: else the lag would read 0."""
    passed = [
        a for a in received if a.received_next is not None and a.received_next > ends.get(a.partition, -1)
    ]
    note_ends(consumer, ends, passed)
