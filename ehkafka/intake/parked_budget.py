"""The parked budget: what happens when lanes on hold have filled a partition's share of it.

On the poll thread. Looks only while something is parked. The declared action: pause that partition (its
neighbours go on), send the largest parked key to the dead letters in order, or stop the app. Where there
is no key left to send, or too much is parked because somebody paused keys by hand, the partition is paused
after all: what is parked stays bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import HandlerFailedError
from ehkafka.events import ParkedBudgetFull
from ehkafka.headers.size import sizes_of
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.order import describe_key
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

    def check(self, pause: Callable[[list[TopicPartition]], None]) -> None:
        """Act where a share has become full; `pause` pauses partitions of the consumer."""
        context = self._context
        loads = [assignment for assignment in context.owned.assignments() if assignment.parked_records]
        over = context.flow.over_parked_share(loads, len(context.owned))
        full = {assignment.partition for assignment in over}
        # A paused partition's share counts as full until it goes on: not only between two attempts.
        still = full | context.flow.parked_full
        for partition in [partition for partition in context.parked_full if partition not in still]:
            del context.parked_full[partition]
        to_pause = [assignment for assignment in over if self._act(assignment)]
        pause(context.flow.to_pause_parked(to_pause, len(context.owned)))

    def _act(self, assignment: Assignment) -> bool:
        """Tell of a full share and act on it; True where the partition is to be paused."""
        route, _ = self._context.owned[assignment.partition]
        with route.exchange.locked() as dispatcher:
            lane, action = _largest(dispatcher, assignment), self._action
            if action == "stop" and not self._is_full(assignment, _by_hand(dispatcher, assignment)):
                action = "pause_partition"
            sent = action == "dead_letter" and self._send(dispatcher, assignment)
        # Described without the lock: a key may be of a user's type.
        self._report(assignment, "?" if lane is None else describe_key(lane.key), action)
        return action == "pause_partition" or (action == "dead_letter" and not sent)

    def _is_full(self, assignment: Assignment, without: Iterable[Lane]) -> bool:
        """Tell whether a share is full without some of the lanes on hold."""
        records, size = self._context.flow.parked_share(len(self._context.owned))
        without = list(without)
        left_records = assignment.parked_records - sum(map(len, without))
        left_bytes = assignment.parked_bytes - sum(map(_size, without))
        return left_records >= records or left_bytes >= size

    def _send(self, dispatcher: Dispatcher, assignment: Assignment) -> bool:
        """Send keys to the dead letters as far as needed; False where that is not enough."""
        records, size = self._context.flow.parked_share(len(self._context.owned))
        leaving = {lane for lane in assignment.lanes_here() if lane in dispatcher.decisions.diverting}
        # Nor do others' retries end because somebody paused a key.
        leaving.update(_by_hand(dispatcher, assignment))
        if self._is_full(assignment, leaving) and not _send_largest(dispatcher, assignment):
            return False
        # While letters are on their way some more may come. It is taken from the backlog's room.
        more_records, more_bytes = self._context.flow.share(len(self._context.owned))
        return (
            assignment.parked_records < records + more_records // 2
            and assignment.parked_bytes < size + more_bytes // 2
        )

    def _report(self, assignment: Assignment, key: str, action: OnParkedFull) -> None:
        partition = assignment.partition
        is_new = partition not in self._context.parked_full
        self._context.parked_full[partition] = key
        if is_new:
            amounts = assignment.parked_records, assignment.parked_bytes
            self._context.emit(ParkedBudgetFull(partition, *amounts, key, action))
        if action == "stop":
            self._context.fatal(
                HandlerFailedError(
                    f"{partition} has {counted(assignment.parked_records, 'record')} parked behind "
                    "failing ones, which "
                    f"is its share of the parked budget; the largest key is {key}. Nothing of them was "
                    "committed. Fix the handler, raise parked_records_max and parked_bytes_max, or declare "
                    "another action with on_parked_full."
                )
            )


def _largest(dispatcher: Dispatcher, assignment: Assignment) -> Lane | None:
    held = (lane for lane in assignment.lanes_here() if lane in dispatcher.holds.held)
    return max(held, key=len, default=None)


def _by_hand(dispatcher: Dispatcher, assignment: Assignment) -> list[Lane]:
    """Return the lanes on hold that somebody has paused."""
    holds = dispatcher.holds
    if not holds.paused_keys:
        return []
    return [lane for lane in assignment.lanes_here() if lane in holds.held and holds.is_paused(lane)]


def _size(lane: Lane) -> int:
    return sum(sizes_of(lane.messages()))


def _send_largest(dispatcher: Dispatcher, assignment: Assignment) -> bool:
    """Send the largest key that may go to the dead letters; False when there is none."""
    lanes = [lane for lane in assignment.lanes_here() if _may_go(dispatcher, lane)]
    if not lanes:
        return False
    lane = max(lanes, key=len)
    waits = dispatcher.holds.held[lane].decision.reason
    dispatcher.decisions.divert_key(lane, f"the share of {assignment.partition} was full of parked: {waits}")
    return True


def _may_go(dispatcher: Dispatcher, lane: Lane) -> bool:
    hold = dispatcher.holds.held.get(lane)
    if hold is None or lane in dispatcher.decisions.diverting or dispatcher.decisions.divert is None:
        return False
    # Somebody paused it to have it later, or no broker takes its letter.
    refused = isinstance(hold.decision, HoldHead) and hold.decision.letter_refused
    return not dispatcher.holds.is_paused(lane) and not refused
