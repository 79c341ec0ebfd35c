"""Takes the snapshot: reads routes and epochs under their locks, one after another.

Called from any thread. Each partition's numbers are of one moment; partitions differ by microseconds. 500
partitions take some milliseconds: nothing here takes a lock for each partition, and keys are counted without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.seen import InboxesSeen
from ehkafka.positions.log_states import KNOWN_S
from ehkafka.recovery.pending import AWAITED
from ehkafka.telemetry.snapshot import OutlivingCall, PartitionSnapshot, Unfinished, Unreadable
from ehkafka.telemetry.waiting_outputs import SENDING, WaitingOutputs
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.seen import EpochSeen, RecordSeen
    from ehkafka.records import TopicPartition


_TALLIED = (
    "backlog_records",
    "backlog_bytes",
    "parked_records",
    "parked_bytes",
    "received_records",
    "finished_records",
    "skipped_records",
    "dead_lettered_records",
)
# Partitions looked at in one hold of a route's lock, which is 1 ms at most.
_HOLD = 24


def partition_snapshots(context: IntakeContext) -> tuple[PartitionSnapshot, ...]:
    """Return a picture of every partition that is ours, by name."""
    return pictures(context, ())[0]


def pictures(
    context: IntakeContext, routes: Iterable[Route]
) -> tuple[tuple[PartitionSnapshot, ...], tuple[OutlivingCall, ...]]:
    """Return these, and of these routes and theirs the calls that still run for ended assignments."""
    by_route: dict[str, tuple[Route, list[Epoch]]] = {route.name: (route, []) for route in routes}
    # A copy: the poll thread may change it meanwhile.
    for route, epoch in context.owned.copy().values():
        by_route.setdefault(route.name, (route, []))[1].append(epoch)
    found: list[PartitionSnapshot] = []
    outliving: list[OutlivingCall] = []
    for route, epochs in by_route.values():
        with route.hub.locked() as inboxes:
            inspection = InboxesSeen(inboxes)
        found += _pictures(context, route, epochs, inspection)
        outliving += (_outliving(context, route, call) for call in inspection.calls())
    found += map(_waiting, context.owned.waiting.copy())
    return tuple(sorted(found, key=_name)), tuple(outliving)


def _outliving(context: IntakeContext, route: Route, entry: Entry) -> OutlivingCall:
    epoch, offset = entry[EPOCH], entry[MESSAGE].offset()
    age_s = _age_s(epoch, offset, context.clock())
    return OutlivingCall(
        partition=epoch.partition,
        epoch=epoch.number,
        offset=offset,
        key=describe_key(entry[KEY]),
        handler=route.handler,
        age_s=age_s,
        is_stuck=age_s > context.settings.stuck_s + route.deadline_s,
    )


def _age_s(epoch: Epoch, offset: int, now_s: float) -> float:
    """Return for how long a record has been here, as far as is known."""
    mark = epoch.received.batches.at(offset)
    return 0.0 if mark is None else max(0.0, now_s - mark.received_at_s)


def _waiting(partition: TopicPartition) -> PartitionSnapshot:
    """Return the picture of a partition of ours that has no epoch yet."""
    return PartitionSnapshot(partition, 0, None, 0, 0, 0, 0, None, 0, None, None, 0, 0, 0, 0, True, None)


def _name(picture: PartitionSnapshot) -> TopicPartition:
    return picture.partition


def _pictures(
    context: IntakeContext, route: Route, epochs: list[Epoch], inspection: InboxesSeen
) -> Iterator[PartitionSnapshot]:
    for begin in range(0, len(epochs), _HOLD):
        now_s = context.clock()
        with route.hub.locked(noted=False):
            all_seen = [inspection.see(epoch) for epoch in epochs[begin : begin + _HOLD]]
            # Second: what has ended by now has its outputs put.
            waiting = {} if context.delivery is None else context.delivery.outputs.waiting()
            taken = []
            for seen in all_seen:
                offsets = waiting.get(seen.epoch, ())
                begun = inspection.begun(seen.epoch) if offsets else ()
                outputs = WaitingOutputs(context.delivery, seen.epoch, offsets, begun)
                taken.append((seen, *_numbers(context, route, seen, outputs, now_s)))
        # Made without the lock, which is held for the numbers alone; and a key may be of a user's type.
        for seen, numbers, oldest, key in taken:
            unfinished = None
            if oldest is not None:
                records = {"lane_records": seen.keys.records(key)} | oldest
                unfinished = Unfinished(key=describe_key(key), **records)
            yield PartitionSnapshot(oldest=unfinished, lanes=seen.keys.count(seen.epoch), **numbers)


def _numbers(
    context: IntakeContext, route: Route, seen: EpochSeen, outputs: WaitingOutputs, now_s: float
) -> tuple[dict[str, Any], dict[str, Any] | None, Hashable]:
    """Return what a partition's picture and its oldest record's are made of, and that one's key."""
    epoch, partition = seen.epoch, seen.epoch.partition
    committed = context.ledger.acknowledged(partition)
    oldest, key = _oldest(route, seen, outputs, now_s)
    if oldest is not None:
        oldest["is_stuck"] = oldest["age_s"] > context.settings.stuck_s + oldest.get("deadline_s", 0.0)
    watermark = None if seen.watermark is None else outputs.bound(seen.watermark)
    lag_records, log_age_s = _lag_and_age(context, epoch, watermark, outputs.ended_records)
    numbers = dict(
        partition=partition,
        epoch=epoch.number,
        lag_records=lag_records,
        parked_full_key=context.owned.parked_full.get(partition),
        watermark=watermark,
        committed=committed.next_offset if committed else None,
        paused=partition in context.flow.paused,
        standstill_s=context.owned.standstill.lasts_s(partition, epoch.received.next_offset or 0, now_s),
        catch_up_records=_catch_up_records(context, epoch, watermark, outputs.ended_records),
        in_flight_records=seen.in_flight_records,
        blocked_lanes=seen.blocked_keys,
        is_paused_by_hand=partition in context.flow.by_hand,
        held_lanes=seen.held_keys,
        log_age_s=log_age_s,
        **{name: getattr(epoch.tally, name) for name in _TALLIED},
        **_log_numbers(context, epoch),
        unreadable=_unreadable(context, partition, now_s),
    )
    return numbers, oldest, key


def _log_numbers(context: IntakeContext, epoch: Epoch) -> dict[str, Any]:
    partition, contact = epoch.partition, context.brokers.contact
    known, leader = context.owned.logs.get(partition), contact.leaders.get(partition)
    numbers: dict[str, Any] = {"leader": "" if leader is None else leader.name}
    if known is not None and partition in context.flow.paused and known.start is not None:
        numbers["deleted_records"] = epoch.received.unread_below(known.start)
    return numbers


def _log_age_s(context: IntakeContext, partition: TopicPartition) -> float | None:
    """Return how old a lag is, and of one that is too old for how long its broker has been silent.

    None while neither is known: just after the assignment, or when this process did not look for a while.
    """
    contact, since_s = context.brokers.contact, context.owned.logs.since_s(partition)
    if since_s is None:
        return None
    age_s, old_s = max(0.0, contact.now_s - since_s), contact.unreachable_s
    if context.owned.logs.get(partition) is not None:
        old_s = min(old_s, KNOWN_S)
        if age_s < old_s:
            return age_s
    silence_s = contact.watched_s(since_s)
    return silence_s if silence_s >= old_s else None


def _unreadable(context: IntakeContext, partition: TopicPartition, now_s: float) -> Unreadable | None:
    halted = context.owned.unreadable.get(partition)
    if halted is None:
        return None
    return Unreadable(halted.offset, halted.reason, halted.is_batch, max(0.0, now_s - halted.since_s))


def _lag_and_age(
    context: IntakeContext, epoch: Epoch, watermark: int | None, ended_records: int
) -> tuple[int | None, float | None]:
    """Return how many records are not finished before the end of the log, and how old that is."""
    age_s = _log_age_s(context, epoch.partition)
    return None if age_s is None else _lag_records(context, epoch, watermark, ended_records), age_s


def _lag_records(
    context: IntakeContext, epoch: Epoch, watermark: int | None, ended_records: int
) -> int | None:
    known, contact = context.owned.logs.get(epoch.partition), context.brokers.contact
    if known is None or contact.is_cut_off or contact.now_s - known.at_s >= contact.unreachable_s:
        return None
    end, received = known.end, epoch.received.next_offset
    if received is None:
        # It begins with its log, wherever that is; one that ends at 0 has nothing.
        received = 0 if end == 0 else known.start
        if received is None:
            return None
    if end <= received and context.brokers.throttle.is_recent:
        return None  # a throttled answer is empty and without an end: the end is unknown
    unfinished = epoch.tally.unfinished_records
    if ended_records and watermark is not None:
        unfinished = max(unfinished, min(unfinished + ended_records, received - watermark))
    return max(0, end - received) + unfinished


def _catch_up_records(
    context: IntakeContext, epoch: Epoch, watermark: int | None, ended_records: int
) -> int | None:
    log = (
        None
        if context.begins.catch_up_ends is None
        else context.begins.catch_up_ends.logs.get(epoch.partition)
    )
    if log is None:
        return None
    received = epoch.received.next_offset
    if received is None or watermark is None:
        return log.end - log.start
    # Some of what is unfinished may have come later.
    unfinished = min(epoch.tally.unfinished_records + ended_records, max(0, log.end - watermark))
    return max(0, log.end - received) + unfinished


def _oldest(
    route: Route, seen: EpochSeen, outputs: WaitingOutputs, now_s: float
) -> tuple[dict[str, Any] | None, Hashable]:
    """Return the oldest unfinished record, and its key, which is yet to be described."""
    record = seen.oldest
    lowest = outputs.lowest
    if lowest is not None and (record is None or lowest < record.entry[MESSAGE].offset()):
        return outputs.oldest(route, lowest, now_s)
    if record is None:
        return None, None
    picture = unfinished_of(route, record, now_s)
    if picture["state"] == AWAITED and picture["offset"] in outputs:
        picture |= SENDING  # with `acknowledged="before_next"` no other answer is awaited
    return picture, route.hub.inboxes.router.unread.keyed(record.entry)[KEY]


def unfinished_of(route: Route, record: RecordSeen, now_s: float) -> dict[str, Any]:
    """Return what the picture of a record is made of, except for its key."""
    epoch, offset = record.entry[EPOCH], record.entry[MESSAGE].offset()
    is_running = record.status == "running"
    return dict(  # noqa: C408 - the fields' names
        offset=offset,
        age_s=_age_s(epoch, offset, now_s),
        attempts=record.attempts,
        state=_state(record),
        last_error=record.last_error,
        is_on_hold=record.status in ("waiting: on hold", "waiting: paused"),
        deadline_s=route.deadline_s if is_running else 0.0,
        status=record.status,
        handler=route.handler,
    )


def _state(record: RecordSeen) -> str:
    """Return what a record does in some words."""
    if record.status == "waiting: earlier call":
        assert record.call is not None
        epoch = record.call[EPOCH]
        where = f"{epoch.partition}@{record.call[MESSAGE].offset()}"
        return f"waits for the call of {where} of epoch {epoch.number}, which has ended"
    decision = record.decision
    if decision is None:
        return record.status
    if isinstance(decision, RetryHead):
        return f"waiting {seconds(decision.after_s)} for its next attempt"
    return decision.reason
