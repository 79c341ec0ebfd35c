"""Which partitions have records in their logs that nobody has received: who has none gains by no pause.

Known from what the client's fetches reported, and while its queue is full none goes out. So where something
is left undone because a log has ended, the broker is asked now and then where it ends. On the poll thread,
outside of callbacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_END, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.assignment import Assignment

# Between two questions, and how long an answer is waited for: the handlers have work for longer.
ASK_S: Final = 1.0
_ANSWER_S: Final = 0.2
# After so long without an answer nobody knows any more.
_KNOWN_S: Final = 5.0
# Between two looks at all partitions.
_CHECK_S: Final = 0.05


class Unread:
    """Looks at what is ours."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        # Handlers that have something unread, and when that was looked at.
        self._names: set[str] = set()
        self._checked_s = self._asked_s = self._answered_s = float("-inf")

    def has(self, partition: TopicPartition) -> bool:
        """Tell whether the log of a partition of ours goes on behind what was received, or may."""
        is_known = self._asked_s <= self._answered_s + _KNOWN_S
        return not is_known or not self._has_ended(self._context.owned[partition].assignment)

    def _has_ended(self, assignment: Assignment) -> bool:
        end = self._context.owned.log_ends.get(assignment.partition)
        return end == 0 or (end is not None and end <= (assignment.received_next or 0))

    def names(self) -> set[str]:
        """Return the names of the handlers that have something unread."""
        now_s = self._context.clock()
        if now_s >= self._checked_s + _CHECK_S:
            self._checked_s = now_s
            owned = self._context.owned.items()
            self._names = {one.route.name for partition, one in owned if self.has(partition)}
        return self._names

    def ask(self, consumer: Consumer) -> None:
        """Ask where those logs end of which nothing is unread, if it is time to."""
        context, now_s = self._context, self._context.clock()
        if now_s < self._asked_s + ASK_S:
            return
        if now_s >= self._asked_s + _KNOWN_S:
            # Of no interest for a while: what fetches reported meanwhile is good for a moment.
            self._answered_s = now_s
        self._asked_s, self._checked_s = now_s, float("-inf")
        ended = [one.partition for one in context.owned.assignments() if self._has_ended(one)]
        asked = [KafkaPartition(*partition, OFFSET_END) for partition in ended]
        try:
            answers = consumer.offsets_for_times(asked, timeout=_ANSWER_S) if asked else []
        except KafkaException:
            return  # the client tells of that itself
        ends = context.owned.log_ends
        for one in answers:
            if one.error is not None:
                return
            partition = TopicPartition(one.topic, one.partition)
            ends[partition] = max(one.offset, ends.get(partition, 0))
        self._answered_s = now_s
