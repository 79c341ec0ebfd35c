"""Asks again about partitions that wait, because neither broker nor mirror answered where they begin.

The context has their reasons; the client has them, paused, and they have no epoch. On the poll thread,
between two batches, never inside a callback: at once when a leader that was silent answers `LogEnds`, which
asks without the poll thread, else less and less often.

The client gets their position by a seek, never by an assign: a look-up takes seconds, in which librdkafka may
have queued a revoke, and it takes a change of the assignment for the answer to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.positions.log_bounds import learn_leaders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.membership import Membership
    from ehkafka.records import TopicPartition

AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 30.0
# A look-up of a silent broker takes seconds, in which no record is read. Look-ups get this share of the time,
# or more where that would be less often than `AGAIN_S_MAX`. Partitions whose leaders answer get more.
SHARE: Final = 0.1
ANSWERED_SHARE: Final = 0.5
# How long to wait for the answer that names the leaders.
LEADERS_S: Final = 1.0
# How long a look-up may take in all, but for the answer that it waits for last. That, the leaders' names and
# the mirror's ranges included, a turn stays below the silence after which the poll thread counts as dead.
WITHIN_S: Final = 5.0


class _Tries:
    """When the next try is due."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._again_s = AGAIN_S
        self.due_s = 0.0

    def begin(self, now_s: float) -> None:
        self._again_s = AGAIN_S
        self.due_s = now_s + AGAIN_S

    def note(self, began_s: float, now_s: float, *, helped: bool) -> None:
        doubled_s = AGAIN_S if helped else 2 * self._again_s
        self._again_s = min(AGAIN_S_MAX, max(doubled_s, (now_s - began_s) / self._share))
        self.due_s = now_s + self._again_s


class BeginLater:
    """Begins their epochs once it is known where; `refused` sees to those that the client will not seek."""

    def __init__(
        self, context: IntakeContext, membership: Membership, refused: Callable[[TopicPartition, str], None]
    ) -> None:
        self._context = context
        self._membership = membership
        self._refused = refused
        # Apart: partitions of a silent leader must not keep the others waiting.
        self._answered, self._silent = _Tries(ANSWERED_SHARE), _Tries(SHARE)
        # Partitions that were tried after an answer of their leader, and since when they waited then.
        self._tried: dict[TopicPartition, float] = {}

    def run(self, consumer: Consumer) -> None:
        """Begin those of which it is known, and ask about the others. Once a turn."""
        context, now_s = self._context, self._context.clock()
        waiting, logs = context.owned.waiting, context.owned.logs
        if not waiting:
            self._tried.clear()
            self._answered.begin(now_s)
            self._silent.begin(now_s)
            return
        answered = [p for p in waiting if logs.get(p) is not None]
        silent = [p for p in waiting if logs.get(p) is None]
        if any(self._tried.get(p) != waiting[p].since_s for p in answered):
            self._answered.due_s = now_s
        for asked, tries in ((answered, self._answered), (silent, self._silent)):
            if not asked or now_s < tries.due_s:
                continue
            # Of all, so that one question serves both.
            if context.begins.positions.lookups.is_known(list(waiting)):
                self._tried |= {p: waiting[p].since_s for p in answered} if asked is answered else {}
                helped = self._begin(consumer, asked)
                tries.note(now_s, context.clock(), helped=helped)
            return  # one look-up a turn

    def _begin(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> bool:
        """Return whether any has begun."""
        # A fetch that waits for a frozen leader learns of no other one for a minute.
        learn_leaders(consumer, LEADERS_S)
        with self._context.begins.positions.within(WITHIN_S):
            begins = self._membership.begin_known(consumer, partitions)
        for partition in self._context.owned.waiting.keys() & set(partitions):
            # Its leader may be silent again: only another answer shows that it is not.
            self._context.owned.logs.forget(partition)
        for begin in begins:
            try:
                # With the commit's leader epoch, as at an assignment.
                consumer.seek(begin.kafka_partition())
                self._membership.after_assign(consumer, [begin.partition])
            except KafkaException as error:
                self._refused(begin.partition, describe_error(error.args[0]))
        return bool(begins)
