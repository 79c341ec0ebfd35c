"""Asks again about partitions that wait, because the mirror did not answer where they begin.

The context has their reasons; the client has them, paused, and they have no epoch. On the poll thread,
between two batches, never inside a callback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.intake.repair import assign_anew

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.membership import Membership

AGAIN_S: Final = 1.0
AGAIN_S_MAX: Final = 30.0


class WaitingPartitions:
    """Begins their epochs once it is known where."""

    def __init__(self, context: IntakeContext, membership: Membership) -> None:
        self._context = context
        self._membership = membership
        self._next_s = float("-inf")
        self._again_s = AGAIN_S

    def run(self, consumer: Consumer) -> None:
        """Begin those of which it is known, and ask about the others, less and less often. Once a turn."""
        context, now_s = self._context, self._context.clock()
        if not context.waiting:
            self._again_s = AGAIN_S
        elif now_s >= self._next_s and context.positions.lookups.is_known(list(context.waiting)):
            has_begun = self._begin(consumer)
            self._again_s = AGAIN_S if has_begun else min(2 * self._again_s, AGAIN_S_MAX)
            self._next_s = now_s + self._again_s

    def _begin(self, consumer: Consumer) -> bool:
        context = self._context
        begins, still = context.positions.find(consumer, list(context.waiting))
        context.waiting.update(still)
        begun = [begin.partition for begin in begins]
        if begun:
            self._membership.begin_all(consumer, begins)
            assign_anew(consumer, context, begun)
            self._membership.after_assign(consumer, begun)
        return bool(begun)
