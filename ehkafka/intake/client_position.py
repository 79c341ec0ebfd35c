"""The client's position in a log: after the last record that it handed out, and after offsets without one.

Offsets without records, such as the marker behind a transaction or an aborted one, are never handed out, but
the client's position passes them. It comes from the client's own memory; nothing is asked of the broker.
Between two calls of `poll` or `consume` only, on the thread that makes them: inside of one the position may
be ahead of what that is going to return. Where compaction has removed the last records of a log, nothing
passes them: librdkafka tells of such a hole only when a record comes behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer


class ClientPositions:
    """The positions of one consumer."""

    def __init__(self) -> None:
        # Where the client stood when a partition was assigned: librdkafka forgets that on a thread of its
        # own, so until it has changed it is of another place in the log.
        self._outdated: dict[TopicPartition, int] = {}

    def begin(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """These were just assigned, and nothing was consumed since."""
        asked = [KafkaPartition(*partition) for partition in partitions]
        for place in consumer.position(asked) if asked else ():
            partition = TopicPartition(place.topic, place.partition)
            self._outdated.pop(partition, None)
            if place.offset >= 0:
                self._outdated[partition] = place.offset

    def beyond(
        self, consumer: Consumer, partition: TopicPartition, offset: int | None
    ) -> tuple[int, int | None] | None:
        """Return the position and the leader epoch before it, where that is beyond an offset; else None."""
        place = consumer.position([KafkaPartition(*partition)])[0]
        if place.offset < 0 or self._outdated.get(partition) == place.offset:
            return None
        self._outdated.pop(partition, None)
        return (place.offset, place.leader_epoch) if offset is None or place.offset > offset else None
