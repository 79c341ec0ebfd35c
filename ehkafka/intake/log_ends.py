"""Where the logs end, by the last fetch answers, and what of them is no record.

librdkafka keeps the high watermark of each answer that brought records or came empty without throttling;
nothing here asks the broker. What the client has passed and is no record counts as received, so that the
watermark and the commit pass it, too, once nothing below is unfinished.

Runs on the poll thread, which owns the consumer, between two calls of `consume()` and only while everything
that these returned has been received: the position is past what was handed out, wherever that went. So never
in a callback, nor while a stop drains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.intake.client_position import ClientPositions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.assignment import Assignment


class LogEnds:
    """Looks where the logs of our partitions end, and where the client stands in them."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        self._positions = ClientPositions()
        # Hears of partitions that were just assigned.
        self.begin = self._positions.begin

    def check(self, consumer: Consumer, assignments: Iterable[Assignment]) -> None:
        """Take over what librdkafka knows of these partitions."""
        for assignment in assignments:
            where = KafkaPartition(*assignment.partition)
            bounds: Any = consumer.get_watermark_offsets(where, cached=True)
            if bounds is None or bounds[1] < 0:
                continue
            self._context.owned.log_ends[assignment.partition] = end = bounds[1]
            if assignment.received_next is None or assignment.received_next < end:
                self._pass_what_is_no_record(consumer, assignment)

    def check_where_passed(self, consumer: Consumer, received: Iterable[Assignment]) -> None:
        """Look again where more was received than the end that was known: else the lag would read 0."""
        ends = self._context.owned.log_ends
        passed = [
            a for a in received if a.received_next is not None and a.received_next > ends.get(a.partition, -1)
        ]
        self.check(consumer, passed)

    def _pass_what_is_no_record(self, consumer: Consumer, assignment: Assignment) -> None:
        context, partition = self._context, assignment.partition
        found = self._positions.beyond(consumer, partition, assignment.received_next)
        if found is None:
            return
        next_offset, leader_epoch = found
        if context.history is not None:
            context.history.jumped(partition, assignment.epoch, next_offset)
        with context.owned[partition].route.exchange.locked():
            assignment.skip_to(next_offset, context.clock(), leader_epoch)
