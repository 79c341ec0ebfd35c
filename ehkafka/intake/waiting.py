"""Asks again about partitions that wait, because neither broker nor mirror answered where they begin.

The context has their reasons; the client has them, paused, and they have no epoch. On the poll thread,
between two batches, never inside a callback: at once when a leader that was silent answers `LogEnds`, which
asks without the poll thread, else less and less often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.intake.repair import assign_anew
from ehkafka.positions.log_bounds import learn_leaders

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.membership import Membership
    from ehkafka.records import TopicPartition

AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 30.0
# A look-up of a silent broker takes seconds, in which nothing else is read: this much of the time at most.
SHARE: Final = 0.1
# How long it is waited for who leads.
LEADERS_S: Final = 1.0


class BeginLater:
    """Begins their epochs once it is known where."""

    def __init__(self, context: IntakeContext, membership: Membership) -> None:
        self._context = context
        self._membership = membership
        self._next_s = self._again_s = 0.0
        # Whose leader has answered since they wait, and that was acted upon.
        self._answered: set[TopicPartition] = set()

    def run(self, consumer: Consumer) -> None:
        """Begin those of which it is known, and ask about the others. Once a turn."""
        context, now_s = self._context, self._context.clock()
        if not context.waiting:
            self._again_s, self._next_s = AGAIN_S, now_s + AGAIN_S
            self._answered.clear()
            return
        answered = {p for p in context.waiting if context.owned.logs.get(p) is not None}
        asked = list(answered - self._answered or (context.waiting if now_s >= self._next_s else ()))
        if asked and context.positions.lookups.is_known(asked):
            self._answered = answered
            self._begin(consumer, asked)
            took_s = context.clock() - now_s
            self._again_s = min(AGAIN_S_MAX, max(2 * self._again_s, took_s / SHARE))
            self._next_s = now_s + took_s + self._again_s

    def _begin(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # A fetch that waits for a frozen leader learns of no other one for a minute.
        learn_leaders(consumer, LEADERS_S)
        begun = [begin.partition for begin in self._membership.begin_known(consumer, partitions)]
        if begun:
            assign_anew(consumer, self._context, begun)
            self._membership.after_assign(consumer, begun)
