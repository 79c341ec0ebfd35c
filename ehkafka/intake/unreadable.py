"""Partitions that cannot be read from an offset on: found, noted, held there, retried.

A batch whose compression, checksum or format the client cannot read comes as an error of its partition.
librdkafka's position is no help then: it stays before some of these batches, passes others, and after a wrong
checksum jumps anywhere. So such a partition is paused at the batch and fetched again from there now and then:
another leader may have a good copy. Errors in a broker's answers to fetches are noted only, because
librdkafka repeats these itself. `standstill` finds batches that the client does not report. On the poll
thread, between two batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.events import PartitionReadable, PartitionUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

    from ehkafka.endpoint.broker_errors import FailedFetch
    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.records import TopicPartition

# Between two attempts to read a batch.
RETRY_S: Final = 5.0
# librdkafka repeats a failed fetch twice a second: after so long without an error it is over.
LASTS_S: Final = 15.0
# A leader whose answers are that old has answered no fetch of late; statistics come every five seconds.
SILENT_LEADER_S: Final = 7.0


@dataclass(slots=True)
class Halted:
    """A partition that cannot be read from `offset` on. Other threads read what does not change."""

    epoch: Epoch
    offset: int
    reason: str
    is_batch: bool
    since_s: float
    due_s: float
    # Paused here; flow control may have paused it in addition.
    is_paused: bool = False
    # Reported since the last look, and the first report of that time that lies behind.
    has_failed: bool = True
    later: FailedFetch | None = None

    @property
    def seek_to(self) -> int:
        """The next offset to read, after the received records."""
        received_next = self.epoch.received.next_offset
        return self.offset if received_next is None else received_next

    @property
    def is_passed(self) -> bool:
        """Whether the partition has got beyond it."""
        return (self.epoch.received.next_offset or 0) > self.offset


class UnreadablePartitions:
    """Keeps the unreadable partitions of `owned`. `assign_anew` brings back what librdkafka will not seek."""

    def __init__(self, context: IntakeContext, assign_anew: Callable[[TopicPartition, str], None]) -> None:
        self._context = context
        self._assign_anew = assign_anew
        self._halted = context.owned.unreadable

    def note(self, failed: FailedFetch) -> None:
        """Take an error of a partition, before the records that came ahead of it are received."""
        known = self._halted.get(failed.partition)
        # Behind errors of its broker a partition is fetched on; behind a batch it must not be.
        if known is None or (failed.is_batch and not known.is_batch):
            self._begin(failed)
            return
        known.has_failed = True
        # Behind a wrong checksum librdkafka reports places that do not exist: the first one counts.
        if known.later is None and failed.offset > known.offset:
            known.later = failed

    def note_silent(self, failed: FailedFetch) -> None:
        """Take a batch before which the client stays without an error: no retry would report anything."""
        known = self._halted.get(failed.partition)
        if known is not None and known.is_batch:
            return  # while the log was read, the client has reported one: it is retried
        self._begin(failed)
        self._halted[failed.partition].has_failed = False
        self._halted[failed.partition].due_s = math.inf

    def halts(self, partition: TopicPartition) -> bool:
        """Tell whether a partition is paused here: flow control must not resume it."""
        halted = self._halted.get(partition)
        return halted is not None and halted.is_paused

    def run(self, consumer: Consumer) -> None:
        """Pause what failed, try again what is due, forget what is over. Once a turn, after its records."""
        for partition, halted in list(self._halted.items()):
            later, halted.later = halted.later, None
            if halted.is_passed:
                self._end(consumer, partition, halted)
                if later is not None:
                    self._begin(later)
        for partition, halted in list(self._halted.items()):
            self._go_on(consumer, partition, halted)

    def _begin(self, failed: FailedFetch) -> None:
        context, partition = self._context, failed.partition
        owned = context.owned.get(partition)
        if owned is None:
            return
        now_s, error = context.clock(), failed.error
        # A position inside of the batch: what lies before it was received in an earlier epoch.
        offset = max(failed.offset, owned.epoch.received.next_offset or 0)
        reason = describe_error(error)
        self._halted[partition] = Halted(owned.epoch, offset, reason, failed.is_batch, now_s, now_s)
        context.emit(PartitionUnreadable(partition, offset, error.name(), reason, failed.is_batch))

    def _end(self, consumer: Consumer, partition: TopicPartition, halted: Halted) -> None:
        del self._halted[partition]
        if halted.is_paused and partition not in self._context.flow.paused:
            consumer.resume([KafkaPartition(*partition)])
        lasted_s = self._context.clock() - halted.since_s
        self._context.emit(PartitionReadable(partition, halted.offset, lasted_s))

    def _go_on(self, consumer: Consumer, partition: TopicPartition, halted: Halted) -> None:
        context, now_s = self._context, self._context.clock()
        if halted.has_failed:
            halted.has_failed = False
            halted.due_s = now_s + (RETRY_S if halted.is_batch else LASTS_S)
            if halted.is_batch:
                consumer.pause([KafkaPartition(*partition)])
                halted.is_paused = True
        elif halted.is_paused:
            if now_s >= halted.due_s and partition not in context.flow.paused:
                halted.is_paused, halted.due_s = False, now_s + LASTS_S
                self._try_again(consumer, partition, halted)
        elif (
            partition in context.flow.paused or context.flow.has_withheld or self._is_silent(partition, now_s)
        ):
            # Nothing of it is fetched, or what is fetched waits in the client.
            halted.due_s = max(halted.due_s, now_s + RETRY_S)
        elif now_s >= halted.due_s:
            self._end(consumer, partition, halted)

    def _is_silent(self, partition: TopicPartition, now_s: float) -> bool:
        """Tell whether no answer would come if the batch were still broken."""
        contact, leader = self._context.brokers.contact, self._context.brokers.contact.leaders.get(partition)
        return contact.is_blind or (leader is not None and now_s - leader.answered_s >= SILENT_LEADER_S)

    def _try_again(self, consumer: Consumer, partition: TopicPartition, halted: Halted) -> None:
        consumer.resume([KafkaPartition(*partition)])
        try:
            consumer.seek(KafkaPartition(*partition, halted.seek_to))
        except KafkaException as refused:
            self._assign_anew(partition, describe_error(refused.args[0]))
