"""The parked budget: what happens when lanes on hold have filled a partition's share of it.

On the poll thread. Looks only while something is parked. The declared action: pause that partition (its
neighbours go on), send the largest parked key to the dead letters in order, or stop the app.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import HandlerFailedError
from ehkafka.events import ParkedBudgetFull
from ehkafka.lanes.order import describe_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnParkedFull


class ParkedBudget:
    """Watches the shares of all partitions that are ours."""

    def __init__(self, context: IntakeContext, action: OnParkedFull) -> None:
        self._context = context
        self._action: OnParkedFull = action

    def look(self, pause: Callable[[list[TopicPartition]], None]) -> None:
        """Act where a share has become full; `pause` pauses partitions of the consumer."""
        context = self._context
        loads = [assignment for assignment in context.owned.assignments() if assignment.parked_records]
        over = context.flow.over_parked_share(loads, len(context.owned))
        full = {assignment.partition for assignment in over}
        for partition in [partition for partition in context.parked_full if partition not in full]:
            del context.parked_full[partition]
        for assignment in over:
            self._act(assignment)
        if self._action == "pause_partition":
            pause(context.flow.to_pause_parked(over, len(context.owned)))

    def _act(self, assignment: Assignment) -> None:
        route, _ = self._context.owned[assignment.partition]
        with route.exchange.locked() as dispatcher:
            lane = _largest(dispatcher, assignment)
            key = "?" if lane is None else describe_key(lane.key)
            if lane is not None and self._action == "dead_letter":
                dispatcher.verdicts.divert_key(lane)
        route.exchange.settle()
        self._tell(assignment, key)

    def _tell(self, assignment: Assignment, key: str) -> None:
        partition = assignment.partition
        is_new = partition not in self._context.parked_full
        self._context.parked_full[partition] = key
        if not is_new:
            return
        event = ParkedBudgetFull(
            partition, assignment.parked_records, assignment.parked_bytes, key, self._action
        )
        self._context.emit(event)
        if self._action == "stop":
            self._context.fatal(
                HandlerFailedError(
                    f"{partition} has {assignment.parked_records} records parked behind failing ones, which "
                    f"is its share of the parked budget; the largest key is {key}. Nothing of them was "
                    "committed. Mend the handler, raise parked_records_max and parked_bytes_max, or declare "
                    "another action with on_parked_full."
                )
            )


def _largest(dispatcher: Dispatcher, assignment: Assignment) -> Lane | None:
    held = (lane for lane in assignment.lanes_here() if lane in dispatcher.holds.held)
    return max(held, key=len, default=None)
