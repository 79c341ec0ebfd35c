"""Moves a drop-in's partition to where its new log is to be read from; see `log_guard`.

The polling thread's, between two polls. What was delivered of the old log and is not marked would be taken
for records of the new one, so with the contiguous guard the partition is halted until all of it is.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.consumer.internals import Internals
    from ehkafka.records import TopicPartition


class Anew:
    """Those that wait for it. `consumer` is confluent-kafka's own view; `begin` forgets the old log."""

    def __init__(
        self, consumer: Consumer, internals: Internals, begin: Callable[[TopicPartition], None]
    ) -> None:
        self._consumer = consumer
        self._internals = internals
        self._begin = begin
        self._offsets: dict[TopicPartition, int] = {}

    def check(self, found: Mapping[TopicPartition, int]) -> None:
        """Take these, and move what may be moved. Not while somebody else is inside of the consumer."""
        self._offsets.update(found)
        if not self._offsets:
            return
        access = self._internals.access
        before, access.poller = access.poller, get_ident()
        try:
            if not access.is_sending:
                for partition, offset in list(self._offsets.items()):
                    self._move(partition, offset)
        finally:
            access.poller = before
            if before is None and access.waiting_threads:
                access.poll_is_over()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            self._offsets.pop(partition, None)

    def _move(self, partition: TopicPartition, offset: int) -> None:
        marks = self._internals.marks
        if marks is not None and not marks.halt(partition):
            return
        try:
            self._consumer.seek(KafkaPartition(*partition, offset))
        except KafkaException:
            return  # librdkafka is busy with it: again at the next look
        del self._offsets[partition]
        self._begin(partition)
