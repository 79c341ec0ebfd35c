"""Has the client read partitions from elsewhere than it does. On the poll thread, outside of callbacks.

librdkafka refuses to `seek` a partition that it does not fetch. The group hears nothing of an assignment: the
member keeps its partitions, and librdkafka keeps their pauses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.records import TopicPartition


def assign_anew(consumer: Consumer, context: IntakeContext, partitions: Sequence[TopicPartition]) -> None:
    """Let partitions of ours be read from the positions of their epochs. Raises `KafkaException`."""
    if context.cooperative:
        consumer.incremental_unassign([KafkaPartition(*partition) for partition in partitions])
        consumer.incremental_assign([_position(context.owned[p].assignment) for p in partitions])
        return
    # The eager protocol knows only whole assignments: the others fetch again, from where they are.
    where = [_position(assignment) for assignment in context.owned.assignments()]
    where += [KafkaPartition(*partition, OFFSET_BEGINNING) for partition in context.waiting]
    consumer.assign(where)


def _position(assignment: Assignment) -> KafkaPartition:
    received_next = assignment.received_next
    offset = OFFSET_BEGINNING if received_next is None else received_next
    mark = assignment.marks.last
    if mark is None or mark.leader_epoch is None:
        return KafkaPartition(*assignment.partition, offset)
    return KafkaPartition(*assignment.partition, offset, leader_epoch=mark.leader_epoch)
