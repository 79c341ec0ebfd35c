"""Back-pressure: how many records the next `consume()` takes, and which partitions pause and resume.

The poll thread's. Withholds records while every handler has enough at hand: the client is asked for none, so
they stay in librdkafka's queue, which is full and fetches nothing, and the client is only kept in touch with.
A pause would throw that queue away; it is for partitions that are stuck while a handler lacks work.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING, Final

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.events import PartitionPaused, PartitionResumed
from ehkafka.intake.flow import Stuck, largest_key
from ehkafka.intake.pace import Counts, PartitionPaces
from ehkafka.intake.prefetch import Prefetch
from ehkafka.intake.resume import resume
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.tally import Tally
from ehkafka.positions.log_states import KNOWN_S

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

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
# A handler has work for so long at hand: more is of no use to its workers, and is received again by the next
# owner after a kill. That is so many records at least and at most.
AHEAD_S: Final = 0.25
RECORDS_MIN, RECORDS_MAX = 100, 2_500
# What a quick handler has at hand: a few milliseconds' work. More would make Python's collector look through
# what is only waiting.
QUICK_RECORDS: Final = 1_000
# Taken at once: this share of what Python's collector lets pass. It looks through all new objects once there
# are so many more than were freed. Fewer records at a time would cost more than they save.
_COLLECTED_SHARE: Final = 0.9
_AT_ONCE_MIN: Final = 500
# Between two looks at what is stuck.
STUCK_CHECK_S: Final = 2e-3
# Between two looks at which handlers have something unread.
UNREAD_CHECK_S: Final = 0.05
# Between two counts of what waits for an answer, each of which goes through all of it.
AWAITED_CHECK_S: Final = 0.1


class Backpressure:
    """Decides how much is taken. `halts` tells of partitions that another part keeps from going on."""

    def __init__(
        self, context: IntakeContext, routes: Sequence[Route], halts: Callable[[TopicPartition], bool]
    ) -> None:
        self._context = context
        self._routes = routes
        self._halts = halts
        self._paces = PartitionPaces()
        # Handlers that have something unread, and when that was looked at.
        self._unread: Sequence[Route] = routes
        self._unread_s = float("-inf")
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
        if amounts.backlog_records:
            self._paces.sample(map(_counts, self._context.owned.epochs()), self._context.clock())
        if flow.is_half_full(amounts):
            wanted = self._wanted_when_half_full(consumer, amounts)
        else:
            missing = max(map(_missing, self._gaining()))
            wanted = min(
                flow.batch_size(amounts), missing, records_uncollected(flow.limits.consume_records_max)
            )
        # What the client must not hold is received, as much as fits into the backlog.
        return wanted or (flow.batch_size(amounts) if self.prefetch.outgrows else 0)

    @property
    def has_quick(self) -> bool:
        """Whether a handler has something at hand that is done in a millisecond or two."""
        return any(_is_quick(route) and route.hub.waiting()[1] for route in self._routes)

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
            self._pause_all(consumer)

    def bound_prefetch(self, consumer: Consumer) -> None:
        """Pause everything where records are withheld and the client would fetch more than it is to hold."""
        if self.prefetch.outgrows:
            self._pause_all(consumer)

    def _pause_all(self, consumer: Consumer) -> None:
        context = self._context
        if len(context.flow.paused) < len(context.owned):
            self.pause(consumer, context.flow.to_pause_all(context.owned.epochs(), context.clock()))

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
        going = context.flow.to_resume(context.owned.epochs(), self.amounts(), context.clock())
        partitions = [partition for partition in going if not self._halts(partition)]
        if not partitions:
            return
        resume(consumer, (context.owned[partition].epoch for partition in partitions))
        now_s = context.clock()
        for partition in partitions:
            context.emit(PartitionResumed(partition, now_s - self._paused_since_s.pop(partition, now_s)))

    def amounts(self) -> Tally:
        """Return what backlog and parked hold, over all handlers."""
        # Plain numbers that workers change meanwhile: a little old is good enough for a bound that one batch
        # may overrun anyway, and no lock is worth it.
        tallies = [route.hub.tally for route in self._routes]
        return tallies[0] if len(tallies) == 1 else Tally.of(tallies)

    def _has_unread(self, partition: TopicPartition) -> bool:
        """Tell whether the log of a partition of ours goes on behind what was received, or may."""
        owned = self._context.owned
        known = owned.logs.get(partition)
        if known is None or self._context.brokers.contact.now_s - known.at_s >= KNOWN_S:
            return True
        return known.end > (owned[partition].epoch.received.next_offset or known.start or 0)

    def _gaining(self) -> Sequence[Route]:
        """Return the handlers that get more where more is taken; all, where all logs have ended.

        Else one without records would always lack work, and the others' would fill the backlog for it.
        """
        now_s = self._context.clock()
        if len(self._routes) > 1 and now_s >= self._unread_s + UNREAD_CHECK_S:
            self._unread_s = now_s
            owned = self._context.owned.items()
            names = {one.route.name for partition, one in owned if self._has_unread(partition)}
            self._unread = [route for route in self._routes if route.name in names] or self._routes
        return self._unread

    def _wanted_when_half_full(self, consumer: Consumer, amounts: Tally) -> int:
        """Look for what is stuck, if a handler lacks work."""
        context, flow = self._context, self._context.flow
        now_s = context.clock()
        if now_s < self._stuck_checked_s + STUCK_CHECK_S or flow.room(amounts) == 0:
            return 0
        self._stuck_checked_s = now_s
        lacking = {route.name for route in self._gaining() if _is_short(route)}
        if not lacking:
            return 0
        # As much as one that may be stuck gets before it is looked at again.
        part = flow.batch_size(amounts, 2 * (len(context.owned) - len(flow.paused)))
        self._count_awaited(amounts.backlog_records, part, now_s)
        stuck = [self._stuck(route, epoch, lacking, now_s) for route, epoch in context.owned.values()]
        over = flow.to_pause(stuck, amounts, now_s, self._has_unread)
        if over is None:
            return 0
        self.pause(consumer, over)
        return flow.batch_size(amounts, 2 * (len(context.owned) - len(flow.paused)))

    def _stuck(self, route: Route, epoch: Epoch, lacking: Container[str], now_s: float) -> Stuck:
        backlog_records = epoch.tally.backlog_records
        # Of a handler that has enough, all its partitions hold counts: it may wait.
        if route.name not in lacking:
            return Stuck(epoch, backlog_records)
        awaited = min(self._awaited.get(epoch, 0), backlog_records)
        return Stuck(epoch, max(self._paces.stuck_records(_counts(epoch), now_s), awaited))

    def _count_awaited(self, backlog: int, part: int, now_s: float) -> None:
        """Count what waits for an answer: however fast other records of the partition end.

        Now and then, and where the backlog has grown by `part`: by the next time it could be full.
        """
        if now_s < self._awaited_s + AWAITED_CHECK_S and backlog < self._awaited_backlog + part:
            return
        self._awaited_s, self._awaited_backlog = now_s, backlog
        self._awaited = Counter()
        for route in self._routes:
            with route.hub.locked() as inboxes:
                for held in inboxes.waiting.held:
                    if held.ticket is not None and not held.is_parked and held.q:
                        self._awaited[held.q[0][EPOCH]] += len(held.q)


def records_uncollected(records_max: int) -> int:
    """Return how many of `records_max` to take at once; all where the collector is off, or very eager."""
    threshold = gc.get_threshold()[0] if gc.isenabled() else 0
    fewer = int(_COLLECTED_SHARE * threshold)
    return min(records_max, fewer) if fewer >= _AT_ONCE_MIN else records_max


def _missing(route: Route) -> int:
    """Return how many records to take for a handler; 0 where it has enough at hand."""
    fed, at_hand = route.hub.waiting()
    takers, call_records = _takers(route), max(1, route.hub.inboxes.router.deep)
    # Something for each worker that has nothing waiting, twice for the time until the next look.
    unfed = max(0, takers - fed)
    missing = 2 * unfed * call_records if unfed > takers // 16 else 0
    mean_s = route.hub.inboxes.balance.mean_s
    ahead = int(takers * AHEAD_S / mean_s) if mean_s else 0
    wanted = max(min(RECORDS_MAX, max(RECORDS_MIN, ahead)), 2 * takers * call_records)
    if _is_quick(route):
        wanted = QUICK_RECORDS
    return max(missing, 2 * wanted - at_hand if at_hand < wanted else 0)


def _is_quick(route: Route) -> bool:
    return route.hub.inboxes.balance.width.is_quick


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
