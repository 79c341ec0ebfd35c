"""Back-pressure: how many records the next `consume()` takes, and which partitions pause and resume.

The poll thread's. Withholds records while every handler has enough at hand: nobody asks for any, so they
stay in librdkafka's queue, which is full and fetches nothing, and the client is only kept in touch with. A
pause would throw that queue away; it is for partitions that are stuck while a handler lacks work.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.events import PartitionPaused, PartitionResumed
from ehkafka.intake.demand import Demand, records_uncollected
from ehkafka.intake.flow import Amounts, Stuck, largest_key, loads_of
from ehkafka.intake.pace import AHEAD_S, Counts, PartitionPaces
from ehkafka.intake.prefetch import Prefetch
from ehkafka.intake.resume import resume
from ehkafka.intake.unread import Unread
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.order import describe_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.records import TopicPartition

# While records are withheld the client is called so often: rebalances, errors and statistics come within it,
# and librdkafka counts as polled.
TOUCH_S: Final = 0.25
# The answer to a commit comes within it too. Until it is there no other one is sent, and what ends meanwhile
# is repeated after a kill.
COMMIT_TOUCH_S: Final = 0.02
# What a quick handler has at hand: a few milliseconds' work. More would make Python's collector look through
# what is only waiting.
QUICK_RECORDS: Final = 2_000
# Between two looks at what is stuck.
STUCK_CHECK_S: Final = 2e-3
# Between two counts of what waits for an answer, each of which goes through all of it.
AWAITED_CHECK_S: Final = 0.1


class Backpressure:
    """Decides how much is taken. `halts` tells of partitions that another part keeps from going on."""

    def __init__(
        self, context: IntakeContext, routes: Sequence[Route], halts: Callable[[TopicPartition], bool]
    ) -> None:
        self._context = context
        self._demands = [(route, Demand()) for route in routes]
        self._halts = halts
        self._paces = PartitionPaces()
        self._unread = Unread(context)
        self.prefetch = Prefetch()
        # Records behind awaited heads, by epoch; when they were counted, and how large the backlog was.
        self._awaited: Counter[Epoch] = Counter()
        self._awaited_s = float("-inf")
        self._awaited_backlog = 0
        self._paused_since_s: dict[TopicPartition, float] = {}
        self._touched_s = self._stuck_checked_s = float("-inf")

    def wanted(self, consumer: Consumer) -> int:
        """Return how many records to take now; 0: withhold them. Pauses what is stuck where others gain."""
        flow, amounts = self._context.flow, self.amounts()
        if self._outputs_wait():
            return 0
        self._paces.sample(map(_counts, self._context.owned.epochs()), self._context.clock())
        # What the client must not hold is received, as much as fits into the backlog.
        fitting = flow.batch_size(amounts) if self.prefetch.outgrows else 0
        if flow.is_half_full(amounts):
            return self._wanted_when_half_full(consumer, amounts) or fitting
        if fitting:
            return fitting
        missing = max(self._missing(route, demand) for route, demand in self._gaining())
        return min(flow.batch_size(amounts), missing, records_uncollected(flow.limits.consume_records_max))

    @property
    def has_quick(self) -> bool:
        """Whether a handler has something at hand that is done in a millisecond or two."""
        hubs = [route.hub for route, _ in self._demands]
        return any(hub.inboxes.balance.width.is_quick and hub.waiting()[1] for hub in hubs)

    def touch_due_s(self) -> float:
        """Return when the client must be called next though nothing is wanted of it."""
        is_committing = self._context.ledger.in_flight is not None
        return self._touched_s + (COMMIT_TOUCH_S if is_committing else TOUCH_S)

    def touched(self) -> None:
        """Note that the client was called."""
        self._touched_s = self._context.clock()

    def make_room(self, consumer: Consumer) -> None:
        """See to it that a call of the client brings no record too many: what is full is paused."""
        if self._context.flow.room(self.amounts()) == 0:
            self.pause(consumer, self._context.flow.to_pause_all(loads_of(self._context.owned.epochs())))

    def bound_prefetch(self, consumer: Consumer) -> None:
        """Pause everything where records are withheld and the client would fetch more than it is to hold."""
        flow = self._context.flow
        if self.prefetch.outgrows and not flow.full:
            # Pauses are the rule then: records that wait their turn for so long are no sign of anything.
            patient_until_s = self._context.clock() + AHEAD_S
            self.pause(consumer, flow.to_pause_all(loads_of(self._context.owned.epochs()), patient_until_s))

    def _outputs_wait(self) -> bool:
        delivery = self._context.delivery
        return delivery is not None and delivery.is_over_bound()

    def pause(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Pause partitions, and tell which key has most of what each holds."""
        partitions = list(partitions)
        if not partitions:
            return
        consumer.pause([KafkaPartition(*partition) for partition in partitions])
        now_s = self._context.clock()
        for partition in partitions:
            self._paused_since_s[partition] = now_s
            route, epoch = self._context.owned[partition]
            with route.hub.locked():
                unfinished = list(epoch.unfinished())
            # After the lock is let go: counting takes a while, and a key's `repr` may be the user's code.
            largest = largest_key(route.hub.inboxes.router.unread.with_keys(unfinished))
            key = None if largest is None else describe_key(largest[KEY])
            self._context.emit(
                PartitionPaused(partition, epoch.tally.backlog_records, epoch.tally.backlog_bytes, key)
            )

    def resume(self, consumer: Consumer) -> None:
        """Resume the partitions that may go on."""
        context = self._context
        if not context.flow.paused or (self.prefetch.outgrows and self._outputs_wait()):
            return
        # Backlog and parked count together: an attempt at a parked head turns its whole key into backlog,
        # and parked alone would let the partition go on at every retry.
        going = context.flow.to_resume(loads_of(context.owned.epochs()), self.amounts(), context.clock())
        partitions = [partition for partition in going if not self._halts(partition)]
        if not partitions:
            return
        resume(consumer, (context.owned[partition].epoch for partition in partitions))
        now_s = context.clock()
        for partition in partitions:
            context.emit(PartitionResumed(partition, now_s - self._paused_since_s.pop(partition, now_s)))

    def amounts(self) -> Amounts:
        """Return what backlog and parked hold, over all handlers."""
        # Plain numbers that workers change meanwhile: a little old is good enough for a bound that one batch
        # may overrun anyway, and no lock is worth it.
        tallies = [route.hub.tally for route, _ in self._demands]
        return Amounts(
            sum(tally.backlog_records for tally in tallies),
            sum(tally.backlog_bytes for tally in tallies),
            sum(tally.parked_records for tally in tallies),
            sum(tally.parked_bytes for tally in tallies),
        )

    def _gaining(self) -> Sequence[tuple[Route, Demand]]:
        """Return the handlers that get more where more is taken; all, where all logs have ended.

        Else one without records would always lack work, and the others' would fill the backlog for it.
        """
        if len(self._demands) == 1:
            return self._demands
        names = self._unread.names()
        found = [each for each in self._demands if each[0].name in names]
        return found or self._demands

    def _missing(self, route: Route, demand: Demand) -> int:
        """Return how many records to take for a handler; 0 where it has enough at hand."""
        fed, at_hand = route.hub.waiting()
        if route.hub.inboxes.balance.width.is_quick:
            return QUICK_RECORDS - at_hand if at_hand < QUICK_RECORDS // 2 else 0
        demand.note(route.hub.tally.outcomes, self._context.clock())
        call_records = max(1, route.hub.inboxes.router.deep)
        takers = _takers(route)
        wanted = max(demand.wanted_records(), 2 * takers * call_records)
        # Something for each worker that has nothing waiting, twice for the time until the next look.
        unfed = max(0, takers - fed)
        missing = 2 * unfed * call_records if unfed > takers // 16 else 0
        return max(missing, 2 * wanted - at_hand if at_hand < wanted else 0)

    def _wanted_when_half_full(self, consumer: Consumer, amounts: Amounts) -> int:
        """Look for what is stuck, if a handler lacks work."""
        context, flow = self._context, self._context.flow
        now_s = context.clock()
        if now_s < self._stuck_checked_s + STUCK_CHECK_S or flow.room(amounts) == 0:
            return 0
        self._stuck_checked_s = now_s
        lacking = [route for route, _ in self._gaining() if _is_short(route)]
        if not lacking:
            return 0
        # As much as one that may be stuck gets before it is looked at again.
        part = flow.batch_size(amounts, 2 * (len(context.owned) - len(flow.paused)))
        self._count_awaited(amounts.backlog_records, part, now_s)
        stuck = [self._stuck(*owned, now_s) for owned in context.owned.values()]
        # Of a handler that has enough, all its partitions hold counts: it may wait.
        names = {route.name for route in lacking}
        for place, owned in enumerate(context.owned.values()):
            if owned.route.name not in names:
                stuck[place] = stuck[place]._replace(records=owned.epoch.tally.backlog_records)
        over = flow.to_pause(stuck, amounts, now_s, self._unread.has)
        if over is None:
            return 0
        self.pause(consumer, over)
        return flow.batch_size(amounts, 2 * (len(context.owned) - len(flow.paused)))

    def _stuck(self, route: Route, epoch: Epoch, now_s: float) -> Stuck:
        records = self._paces.stuck_records(_counts(epoch), route.hub.inboxes.balance.mean_s, now_s)
        (load,) = loads_of((epoch,))
        awaited = min(self._awaited.get(epoch, 0), load.backlog_records)
        if records is None:
            return Stuck(load, awaited or None)
        return Stuck(load, max(records, awaited))

    def _count_awaited(self, backlog: int, part: int, now_s: float) -> None:
        """Count what waits for somebody's answer: however fast other records of the partition end.

        Now and then, and where the backlog has grown by `part`: by the next time it could be full.
        """
        if now_s < self._awaited_s + AWAITED_CHECK_S and backlog < self._awaited_backlog + part:
            return
        self._awaited_s, self._awaited_backlog = now_s, backlog
        self._awaited = Counter()
        for route, _ in self._demands:
            with route.hub.locked() as inboxes:
                for held in inboxes.waiting.held:
                    if held.ticket is not None and not held.is_parked and held.q:
                        self._awaited[held.q[0][EPOCH]] += len(held.q)


def _is_short(route: Route) -> bool:
    """Tell whether a handler's workers will soon find nothing, in the upper half of the backlog.

    Not by how many records wait: those of few keys are for few workers, however many are taken.
    """
    return 2 * route.hub.waiting()[0] < _takers(route)


def _takers(route: Route) -> int:
    """Return how many of a handler's workers take new keys."""
    return min(route.workers.size, route.hub.inboxes.router.width)


def _counts(epoch: Epoch) -> Counts:
    backlog_records = epoch.tally.backlog_records
    return Counts(epoch.partition, backlog_records, epoch.tally.received_records - backlog_records)
