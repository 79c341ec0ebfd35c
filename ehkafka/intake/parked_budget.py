"""The parked budget: what happens when waiting keys have filled a partition's share of it.

On the poll thread. Looks only while something is parked. The declared action: pause that partition (its
neighbours go on), send the largest parked key to the dead letters in order, or stop the app. Where there
is no key left to send, or too much is parked because keys are paused by hand, the partition is paused
after all: what is parked stays bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import HandlerFailedError
from ehkafka.events import ParkedBudgetFull
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, SIZE
from ehkafka.lanes.order import describe_key
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnParkedFull


class ParkedBudget:
    """Watches the shares of all partitions that are ours."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        self._action = context.settings.on_parked_full

    def check(self, pause: Callable[[list[TopicPartition]], None]) -> None:
        """Act where a share has become full; `pause` pauses partitions of the consumer."""
        context = self._context
        parked = (epoch for epoch in context.owned.epochs() if epoch.tally.parked_records)
        over = context.flow.over_parked_share(parked, len(context.owned))
        full = {epoch.partition for epoch in over}
        # A paused partition's share counts as full until it goes on: not only between two attempts.
        still = full | context.flow.parked_full
        for partition in [partition for partition in context.owned.parked_full if partition not in still]:
            del context.owned.parked_full[partition]
        to_pause = [epoch for epoch in over if self._act(*context.owned[epoch.partition])]
        # The action may have changed what is parked.
        pause(context.flow.to_pause_parked(to_pause, len(context.owned)))

    def _act(self, route: Route, epoch: Epoch) -> bool:
        """Tell of a full share and act on it; True where the partition is to be paused."""
        with route.hub.locked() as inboxes:
            largest, action = max(_of(inboxes, epoch), key=_records, default=None), self._action
            spared = filter(_is_spared, _of(inboxes, epoch))
            if action == "stop" and not self._is_full(epoch, spared):
                action = "pause_partition"
            sent = action == "dead_letter" and self._send(inboxes, epoch)
        # Described without the lock: a key may be of a user's type.
        self._report(epoch, "?" if largest is None else describe_key(largest.key), action)
        return action == "pause_partition" or (action == "dead_letter" and not sent)

    def _is_full(self, epoch: Epoch, without: Iterable[Held]) -> bool:
        """Tell whether a share is full without some of the waiting keys."""
        records, size = self._context.flow.parked_share(len(self._context.owned))
        sizes = [entry[SIZE] for held in without for entry in held.q]
        left_records = epoch.tally.parked_records - len(sizes)
        left_bytes = epoch.tally.parked_bytes - sum(sizes)
        return left_records >= records or left_bytes >= size

    def _send(self, inboxes: Inboxes, epoch: Epoch) -> bool:
        """Send keys to the dead letters as far as needed; False where that is not enough."""
        flow, partitions = self._context.flow, len(self._context.owned)
        records, size = flow.parked_share(partitions)
        leaving = [held for held in _of(inboxes, epoch) if held.ticket or _is_spared(held)]
        if self._is_full(epoch, leaving) and not _send_largest(inboxes, epoch):
            return False
        # While letters are on their way some more may come. It is taken from the backlog's room.
        return epoch.tally.parked_records < records + flow.limits.backlog_records_max // (
            2 * partitions
        ) and epoch.tally.parked_bytes < size + flow.limits.backlog_bytes_max // (2 * partitions)

    def _report(self, epoch: Epoch, key: str, action: OnParkedFull) -> None:
        partition = epoch.partition
        is_new = partition not in self._context.owned.parked_full
        self._context.owned.parked_full[partition] = key
        if is_new:
            amounts = epoch.tally.parked_records, epoch.tally.parked_bytes
            self._context.emit(ParkedBudgetFull(partition, *amounts, key, action))
        if action == "stop":
            self._context.fatal(
                HandlerFailedError(
                    f"{partition} has reached its limit with "
                    f"{counted(epoch.tally.parked_records, 'record')} that failed or wait behind failed "
                    f"ones; key {key} has the most. No waiting record was committed. Fix the handler, raise "
                    f"parked_records_max and parked_bytes_max, or choose another on_parked_full."
                )
            )


def _of(inboxes: Inboxes, epoch: Epoch) -> list[Held]:
    """Return the keys whose first record that waits is of an epoch; one before it may be running."""
    keys = [*inboxes.waiting.held, *inboxes.router.slow.keys.values()]
    return [held for held in keys if held.is_parked and held.q and held.q[0][EPOCH] is epoch]


def _is_spared(held: Held) -> bool:
    """Tell whether a command has paused a key, or it is tried, perhaps well: nothing ends because of it."""
    return held.is_paused or held.decision is None


def _records(held: Held) -> int:
    return len(held.q)


def _send_largest(inboxes: Inboxes, epoch: Epoch) -> bool:
    """Send the largest key that may go to the dead letters; False when there is none."""
    waiting = inboxes.waiting
    if waiting.divert is None:
        return False
    held = max(filter(_may_go, _of(inboxes, epoch)), key=_records, default=None)
    if held is None:
        return False
    waits = held.decision.reason if held.decision is not None else ""
    waiting.divert_key(held, f"the limit of waiting records of {epoch.partition} was reached: {waits}")
    return True


def _may_go(held: Held) -> bool:
    # No broker takes its letter, or that is on its way.
    refused = isinstance(held.decision, HoldHead) and held.decision.letter_refused
    return held.ticket is None and not _is_spared(held) and not refused
