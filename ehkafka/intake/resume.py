"""Resuming partitions so that the next fetch goes out at once.

When every partition of a broker is paused, librdkafka's thread for that broker has nothing to do and sleeps
for up to a second; `resume` does not wake it, a `seek` does. Measured on a local broker: 0.6 s from the
resume to the next record, and 4 ms with the seek. Runs on the poll thread, outside of callbacks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

    from ehkafka.lanes.epoch import Epoch


def resume(consumer: Consumer, epochs: Iterable[Epoch]) -> None:
    """Resume these partitions where they were paused."""
    epochs = list(epochs)
    consumer.resume([KafkaPartition(*each.partition) for each in epochs])
    for epoch in epochs:
        where = KafkaPartition(*epoch.partition)
        (position,) = consumer.position([where])
        # Behind control records or before the first record a slow resume is better than a wrong position. One
        # that lies before what was received stood still where leader epochs went down (librdkafka compares
        # these first), and what lies between would be received again.
        received_next = epoch.received.next_offset
        if received_next is not None and 0 <= position.offset <= received_next:
            # Refused when the partition is not fetched right now, e.g. while its start is still looked up.
            with suppress(KafkaException):
                consumer.seek(KafkaPartition(*epoch.partition, received_next))
