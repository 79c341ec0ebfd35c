"""The ends of the logs: from the last fetches, or from a question to the broker if no fetch shows them.

librdkafka keeps the high watermark of each answer that brought records or came empty without throttling. Of
what moment that is it does not tell, so it counts while it moves, or while the partition is known to be
fetched: it is not paused, all that the client had was taken, and its leader answers. For the others
`LogAsker` asks the broker again and again; nothing here waits for it.

What the client has passed and is no record counts as received, so that the watermark and the commit pass it,
too, once nothing below is unfinished. Runs on the poll thread, which owns the consumer, between two calls of
`consume()` and only while everything that these returned has been received: the position is past what was
handed out, wherever that went. So never in a callback, nor while a stop drains.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.intake.client_position import ClientPositions
from ehkafka.intake.contact import Leader
from ehkafka.intake.retention import Retention
from ehkafka.positions.gap import LogBounds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.positions.log_asker import KnownLogs, Question
    from ehkafka.records import TopicPartition

# What no fetch has shown for so long is asked for, and where none is to be expected, so often.
FETCHED_S: Final = 5.0
AGAIN_S: Final = 2.0
# A partition that could be fetched for longer has been: a fetch waits half a second for records.
_FETCH_S: Final = 1.0
# One of so many looks is for each partition that has no record to come.
_TURNS: Final = 4
# Statistics say so often, or more often, when a leader answered last.
SILENT_S: Final = 7.0
# Of partitions of which the statistics name none: perhaps there is none.
_NO_LEADER: Final = Leader("", -math.inf)


class LogEnds:
    """Keeps the book of our partitions' logs, and looks where the client is in them."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        self._positions = ClientPositions()
        # The high watermarks that the client had.
        self._seen: dict[TopicPartition, int] = {}
        # Since the last look all that the client had was taken at some time: it fetches. Since when that was
        # so at each look, and since when each partition may be fetched.
        self.has_drained = False
        self._drained_s = float("-inf")
        self._free_s: dict[TopicPartition, float] = {}
        self._turn = 0
        self._question: Question[KnownLogs] | None = None
        # When those are asked for again that have no position, whatever fetches show.
        self._unplaced_s = float("-inf")
        # When a leader was asked last while it was silent.
        self._asked_s: dict[str, float] = {}
        self._retention = Retention(context.emit)

    def begin(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Hear of partitions that were just assigned: what the client has of them is of an earlier time."""
        self._positions.begin(consumer, partitions)
        for partition in partitions:
            self._free_s[partition] = self._context.brokers.contact.now_s
            self._retention.forget(partition)
            self._context.owned.logs.begin(partition, self._context.brokers.contact.now_s)
            bounds: Any = consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
            self._seen[partition] = bounds[1] if bounds is not None else -1

    def check(self, consumer: Consumer, epochs: Iterable[Epoch]) -> None:
        """Take over what librdkafka knows of these partitions."""
        context = self._context
        for epoch in epochs:
            partition = epoch.partition
            bounds: Any = consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)
            if bounds is None or bounds[1] < 0:
                continue
            if self._seen.get(partition) != bounds[1]:
                self._seen[partition] = bounds[1]
                context.owned.logs.fetched(partition, bounds[1], context.brokers.contact.now_s)
            if epoch.received.next_offset is None or epoch.received.next_offset < bounds[1]:
                self._pass_what_is_no_record(consumer, epoch)

    def check_where_passed(self, consumer: Consumer, received: Iterable[Epoch]) -> None:
        """Look again where more was received than the end that was known: else the lag would read 0."""
        logs = self._context.owned.logs
        passed = [a for a in received if (a.received.next_offset or 0) > (logs.end(a.partition) or 0)]
        self.check(consumer, passed)

    @property
    def is_asked(self) -> bool:
        """Whether a question is under way, or wanted."""
        owned = self._context.owned
        return self._question is not None or not owned.logs.wanted.isdisjoint(owned)

    def due(self) -> list[Epoch]:
        """Return the epochs to look at now: what lags, what is known of long ago, some others in turn."""
        self._turn = (self._turn + 1) % _TURNS
        logs, contact = self._context.owned.logs, self._context.brokers.contact
        # An answer of the broker may be two looks later.
        now_s, old_s = contact.now_s, min(FETCHED_S, contact.unreachable_s / 3)
        return [
            one
            for number, one in enumerate(self._context.owned.epochs())
            if number % _TURNS == self._turn
            or one.received.next_offset is None
            or one.received.next_offset != logs.end(one.partition)
            or logs.age_s(one.partition, now_s) >= old_s
        ]

    def keep(self, epochs: Iterable[Epoch]) -> None:
        """Bring the book up to date after `check`. Raises nothing, waits for nothing."""
        context = self._context
        now_s, throttled = context.brokers.contact.now_s, context.brokers.throttle.is_recent
        self._drained_s = self._drained_s if self.has_drained and not throttled else now_s
        self.has_drained = False
        self._free_s |= dict.fromkeys((*context.flow.paused, *context.owned.unreadable), now_s)
        logs, leaders = context.owned.logs, context.brokers.contact.leaders
        is_fetching, free_s = now_s - self._drained_s > _FETCH_S, self._free_s
        for partition in (one.partition for one in epochs if is_fetching):
            if now_s - free_s.get(partition, -math.inf) <= _FETCH_S:
                continue
            leader, end = leaders.get(partition), self._seen.get(partition, -1)
            # What is not known yet is asked at once: the leader may be that of an earlier assignment.
            if leader is not None and end >= 0 and logs.get(partition) is not None:
                logs.fetched(partition, end, min(now_s, leader.answered_s))
        self._take_answer(now_s)
        self._ask(epochs, now_s)

    def _fetched_s(self, partition: TopicPartition, now_s: float) -> float:
        """Return for how long a partition could be fetched."""
        return now_s - max(self._drained_s, self._free_s.get(partition, -math.inf))

    def _take_answer(self, now_s: float) -> None:
        question = self._question
        if question is None or not question.done.is_set():
            return
        self._question = None
        owned, ends = self._context.owned, self._context.begins.catch_up_ends
        for partition, (start, end, at_s) in question.answer.logs.items():
            if partition in self._context.owned.waiting and start is not None:
                owned.logs.answered(partition, LogBounds(start, end), at_s)
            elif partition in owned and start is not None:
                owned.logs.answered(partition, LogBounds(start, end), at_s)
                if ends is not None:
                    ends.note({partition: LogBounds(start, end)})
                epoch = owned[partition].epoch
                received_next = epoch.received.next_offset
                # The fetch found nothing: no record waits in the client either, which has been deleted since.
                if received_next is None and start == end and self._fetched_s(partition, now_s) > _FETCH_S:
                    # At once: at the next look records may have come.
                    self._skip_to(epoch, end)
                deleted = epoch.received.unread_below(start) if partition in self._context.flow.paused else 0
                self._retention.check(partition, start, received_next, at_s, deleted)

    def _ask(self, epochs: Iterable[Epoch], now_s: float) -> None:
        asker, logs = self._context.brokers.asker, self._context.owned.logs
        if asker is None or self._question is not None:
            return
        asks_unplaced = now_s >= self._unplaced_s
        # Well before an answer is too old to be shown.
        unreachable_s = self._context.brokers.contact.unreachable_s
        fetched_s, again_s = min(FETCHED_S, unreachable_s / 2), min(AGAIN_S, unreachable_s / 4)
        # Those that wait are asked for again and again: an answer shows that it is worth finding them.
        due = {p for p in self._context.owned.waiting if logs.age_s(p, now_s) >= again_s}
        due |= logs.wanted & self._context.owned.keys()
        due |= {
            one.partition
            for one in epochs
            if (asks_unplaced and one.received.next_offset is None)
            or (age_s := logs.age_s(one.partition, now_s)) >= fetched_s
            or (age_s >= again_s and not self._fetched_s(one.partition, now_s))
        }
        if due:
            self._unplaced_s = now_s + AGAIN_S if asks_unplaced else self._unplaced_s
            groups = self._by_leader(sorted(due), now_s)
            logs.wanted.difference_update(*groups)
            self._question = asker.read_logs(groups)

    def _by_leader(
        self, partitions: Iterable[TopicPartition], now_s: float
    ) -> list[Collection[TopicPartition]]:
        """Group partitions by their leaders; of those that are silent only one, in turns, and last.

        Each of these takes seconds, in which the lags of the others grow old.
        """
        leaders = self._context.brokers.contact.leaders
        groups: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        answered_s: dict[str, float] = {}
        for partition in partitions:
            leader = leaders.get(partition, _NO_LEADER)
            groups[leader.name].append(partition)
            answered_s[leader.name] = max(answered_s.get(leader.name, -math.inf), leader.answered_s)
        silent = [name for name in groups if now_s - answered_s[name] >= SILENT_S]
        next_one = min(silent, key=lambda name: self._asked_s.get(name, -math.inf), default=None)
        if next_one is not None:
            self._asked_s[next_one] = now_s
        asked = [*(name for name in groups if name not in silent), *([] if next_one is None else [next_one])]
        return [groups[name] for name in asked]

    def _pass_what_is_no_record(self, consumer: Consumer, epoch: Epoch) -> None:
        context, partition = self._context, epoch.partition
        found = self._positions.beyond(consumer, partition, epoch.received.next_offset)
        # What the client passes of a batch that cannot be read is not known to be no record.
        if found is None or partition in context.owned.unreadable:
            return
        self._skip_to(epoch, *found)

    def _skip_to(self, epoch: Epoch, next_offset: int, leader_epoch: int | None = None) -> None:
        context, partition = self._context, epoch.partition
        if context.history is not None:
            context.history.jumped(partition, epoch.number, next_offset)
        with context.owned[partition].route.hub.locked():
            epoch.received.skip_to(next_offset, context.clock(), leader_epoch)
        context.owned.saver.has_moved()
