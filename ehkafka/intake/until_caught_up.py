"""A run with an end: where its logs end, and what follows of what `caught_up` says. On the poll thread.

The ends are asked for when a partition is ours for the first time, with the run's own consumer, inside the
assign callback: before anything of the partition is fetched, so that what handlers make of its first records
is not counted. What is not answered in a moment is taken from the first answer that `log_ends` gets, and
handlers go on meanwhile. A run without these ends has no `UntilCaughtUp`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from ehkafka.errors import UnfinishedError
from ehkafka.events import AppCatchingUp, AppCaughtUp
from ehkafka.intake.caught_up import NO_KEY, Blocker, CatchingUp, CaughtUp, PartitionState, WaitingKey
from ehkafka.intake.returned import NAMED_MAX, why_held
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.recovery.pending import AWAITED
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka import Consumer

    from ehkafka.errors import EhkafkaError
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition

# Each of the two answers is waited for so long.
ASK_S: Final = 1.0


class CatchUpEnds:
    """By partition, for as long as the run lasts: a partition that comes back has the end that it had."""

    def __init__(self, known: Mapping[TopicPartition, LogBounds]) -> None:
        """`known` are asked no more."""
        # Replaced, never changed: the snapshot reads it, from any thread.
        self.logs: Mapping[TopicPartition, LogBounds] = dict(known)

    def ask(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Ask where those end of which it is not known. Raises nothing: `LogEnds` asks again."""
        unknown = [partition for partition in partitions if partition not in self.logs]
        with suppress(KafkaException):
            self.note(log_bounds(consumer, unknown, ASK_S) if unknown else {})

    def note(self, found: Mapping[TopicPartition, LogBounds]) -> None:
        """Take what a broker has answered; the first answer stays."""
        self.logs = {**found, **self.logs}


# Between two lines of the log.
REPORT_S: Final = 10.0


class UntilCaughtUp:
    """Ends a run that has caught up: by `stop`, or by `fail` where records wait for too long."""

    def __init__(
        self,
        context: IntakeContext,
        routes: Iterable[Route],
        *,
        settle_s: float,
        stop: Callable[[str], object],
        fail: Callable[[EhkafkaError], object],
    ) -> None:
        assert context.begins.catch_up_ends is not None
        self._ends = context.begins.catch_up_ends
        self._context = context
        self._routes = list(routes)
        self._stop = stop
        self._fail = fail
        self._catching_up = CatchingUp(settle_s)
        self._began_s = self._reported_s = context.clock()
        self._reported_records = 0

    def check(self) -> None:
        """Look where the run stands, and end it if it is over."""
        context = self._context
        now_s = context.clock()
        states = [self._state_of(*owned) for owned in context.owned.values()]
        states += [_unplaced(partition, one.reason) for partition, one in context.owned.waiting.items()]
        is_blind = context.brokers.throttle.is_recent or context.brokers.contact.is_blind
        is_settled = context.brokers.contact.is_member and context.brokers.contact.lost_s is None
        found = self._catching_up.judge(states, now_s, is_settled=is_settled, is_blind=is_blind)
        if self._catching_up.wants_commit:
            context.ledger.commit_soon()
        if isinstance(found, CaughtUp):
            took_s = now_s - self._began_s
            context.emit(AppCaughtUp(len(states), self._outcomes(), took_s, found.is_standby))
            self._stop("caught up")
            return
        if found is None:
            self._report(states, now_s)
        else:
            self._fail(_error(found.stuck, self._catching_up.settle_s))

    def _state_of(self, route: Route, epoch: Epoch) -> PartitionState:
        context, partition = self._context, epoch.partition
        log = self._ends.logs.get(partition)
        if log is None:
            context.owned.logs.wanted.add(partition)
        halted = context.owned.unreadable.get(partition)
        standstill, begin = context.owned.standstill, context.owned.begin_of(partition)
        tail = standstill.tail(partition, begin)
        is_paused = partition in context.flow.paused
        received = epoch.received.next_offset
        watermark, runs, waiting = _progress_of(route, epoch, log, is_paused=is_paused)
        # Without the lock, and last: an output is put before its record ends.
        if watermark is not None and (one := self._waiting_outputs(epoch, log)) is not None:
            watermark = min(watermark, one.offset)
            waiting = [*waiting, one]
        committed = context.ledger.acknowledged(partition)
        return PartitionState(
            partition=partition,
            end=None if log is None else log.end,
            begin=0 if log is None else log.start,
            received_next=received,
            watermark=watermark,
            committed=None if committed is None else committed.next_offset,
            runs=runs,
            waiting=waiting,
            is_paused=is_paused,
            unreadable=None if halted is None else (halted.offset, halted.reason),
            is_unread=halted is None and standstill.is_unread(partition, begin),
            has_no_tail=tail is not None and tail.is_empty and log is not None and tail.end >= log.end,
            # Beyond the end that was asked for, a position is right only if the log has grown since.
            is_in_log=log is None or (received or 0) <= max(log.end, context.owned.logs.end(partition) or 0),
        )

    def _waiting_outputs(self, epoch: Epoch, log: LogBounds | None) -> WaitingKey | None:
        """Return the lowest record up to the end whose outputs are not acknowledged."""
        delivery = self._context.delivery
        lowest = delivery.lowest().get(epoch) if delivery is not None else None
        if lowest is None or (log is not None and lowest >= log.end):
            return None
        return WaitingKey(lowest, NO_KEY, "its outputs are not acknowledged by the broker")

    def _report(self, states: list[PartitionState], now_s: float) -> None:
        took_s = now_s - self._reported_s
        if took_s < REPORT_S:
            return
        outcomes = self._outcomes()
        per_s = (outcomes - self._reported_records) / took_s
        self._reported_s, self._reported_records = now_s, outcomes
        left = self._catching_up.left_records(states)
        unknown = sum(state.end is None for state in states)
        self._context.emit(AppCatchingUp(left, per_s, len(states), unknown))

    def _outcomes(self) -> int:
        return sum(route.hub.tally.outcomes for route in self._routes)


def _unplaced(partition: TopicPartition, reason: str) -> PartitionState:
    """Return the state of a partition that waits until it is known where it begins."""
    why = reason.rstrip(".")
    return PartitionState(
        partition=partition, end=None, received_next=None, watermark=None, committed=None, unplaced=why
    )


def _progress_of(
    route: Route, epoch: Epoch, log: LogBounds | None, *, is_paused: bool
) -> tuple[int | None, bool, list[WaitingKey]]:
    """Return the watermark, whether records need no help to end, and those that wait."""
    received = epoch.received.next_offset
    is_received = log is not None and received is not None and received >= log.end
    with route.hub.locked() as inboxes:
        if is_received or is_paused or not epoch.tally.backlog_records:
            # O(backlog): only for what is nearly done, or may not go on.
            below = received if log is None else log.end
            return epoch.watermark(), *_unfinished_below(inboxes, epoch, below or 0)
        return None if received is None else received - epoch.tally.unfinished_records, True, []


def _unfinished_below(inboxes: Inboxes, epoch: Epoch, end: int) -> tuple[bool, list[WaitingKey]]:
    """Return whether any record below an offset needs no help to end, and those that wait. With the lock."""
    held_by = {
        id(entry[MESSAGE]): held for held in inboxes.waiting.held for entry in held.q if entry[EPOCH] is epoch
    }
    waiting: dict[Held, WaitingKey] = {}
    for entry in epoch.unfinished():
        offset = entry[MESSAGE].offset()
        if offset >= end:
            break
        held = held_by.get(id(entry[MESSAGE]))
        why = None if held is None else _waits_for(held)
        if held is None or why is None:
            return True, []  # what waits as well is not asked for yet
        waiting.setdefault(held, WaitingKey(offset, entry[KEY], why))
    return False, list(waiting.values())


def _waits_for(held: Held) -> str | None:
    """Return what a waiting key waits for; None where its first record is with its deferral's receiver."""
    if held.ticket is not None:
        reason = held.ticket.decision.reason
        return None if reason == AWAITED else reason
    return why_held(held)


def _error(stuck: tuple[Blocker, ...], settle_s: float) -> UnfinishedError:
    named = ", ".join(_named(stuck)) + (" …" if len(stuck) > NAMED_MAX else "")
    return UnfinishedError(
        f"Not caught up: all other records are done, but "
        f"{counted(len(stuck), 'record has waited', 'records have waited')} for more than "
        f"settle_s={settle_s:g}: "
        f"{named}. Waiting records are not committed, so they are handled again. Fix the causes in brackets, "
        f"or raise settle_s (--settle-for)."
    )


def _named(stuck: tuple[Blocker, ...]) -> Iterator[str]:
    # Never under a lock: a user's own key may state at the app when it is put into words.
    for partition, offset, key, why in stuck[:NAMED_MAX]:
        where = f"{partition}" if offset is None else f"{partition}@{offset}"
        if not (offset is None or key is NO_KEY):
            where += f" key {describe_key(key)}"
        yield f"{where} ({why})"
