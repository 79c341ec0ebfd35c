"""Takes the snapshot: reads routes and assignments under their locks, one after another.

Called from any thread. Each partition's numbers are of one moment; partitions differ by microseconds. 500
partitions take some milliseconds: nothing here looks at a lane twice, nor takes a lock for each partition.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.lanes.holds import PAUSED
from ehkafka.lanes.lane import Lane
from ehkafka.lanes.order import describe_key
from ehkafka.telemetry.snapshot import PartitionSnapshot, Unfinished, Unreadable
from ehkafka.telemetry.waiting_outputs import SENDING, WaitingOutputs
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.holds import Hold
    from ehkafka.records import TopicPartition


# Partitions looked at in one hold of a route's lock: whoever waits for it does so for less than 1 ms.
_HOLD = 16


class _Seen:
    """What lanes hold of one partition: how many stand here, the oldest one, and the least offset in any."""

    __slots__ = ("begun", "blocked", "held", "lane", "lane_offset", "lanes", "least", "running")

    def __init__(self) -> None:
        self.lanes = 0
        # Records that are started in lanes; lanes on hold, and those of them that no time lets go.
        self.running = self.blocked = self.held = 0
        # Lanes whose heads are, or were, with a worker.
        self.begun: list[Lane] = []
        self.lane: Lane | None = None
        self.lane_offset = self.least = _NEVER

    def note_hold(self, lane: Lane, hold: Hold) -> None:
        """Count a lane on hold."""
        if lane.attempts:
            self.begun.append(lane)
        self.blocked += 1
        self.held += hold.due_s is None


_NEVER = sys.maxsize


def partition_snapshots(context: IntakeContext) -> tuple[PartitionSnapshot, ...]:
    """Return a picture of every partition that is ours, by name."""
    by_route: dict[str, tuple[Route, list[Assignment]]] = {}
    # A copy: the poll thread may change it meanwhile.
    for route, assignment in context.owned.copy().values():
        by_route.setdefault(route.name, (route, []))[1].append(assignment)
    found = [one for owned in by_route.values() for one in _pictures(context, *owned)]
    found += map(_waiting, context.waiting.copy())
    return tuple(sorted(found, key=_name))


def _waiting(partition: TopicPartition) -> PartitionSnapshot:
    """Return the picture of a partition of ours that has no epoch yet."""
    return PartitionSnapshot(partition, 0, None, 0, 0, 0, 0, None, 0, None, None, 0, 0, 0, 0, True, None)


def _name(picture: PartitionSnapshot) -> TopicPartition:
    return picture.partition


def _pictures(
    context: IntakeContext, route: Route, assignments: list[Assignment]
) -> Iterator[PartitionSnapshot]:
    size = len(assignments) if assignments[0].shared else _HOLD
    for begin in range(0, len(assignments), size):
        hold = assignments[begin : begin + size]
        now_s = context.clock()
        with route.exchange.locked():
            held = route.dispatcher.holds.held
            shared = _seen_in_shared(hold[0].lanes, held) if hold[0].shared else None
            taken = [
                _numbers(context, route, one, _seen(one, held) if shared is None else shared[one], now_s)
                for one in hold
            ]
        # Made without the lock, which is held for the numbers alone; and a key may be of a user's type.
        for numbers, oldest, key in taken:
            unfinished = None if oldest is None else Unfinished(key=describe_key(key), **oldest)
            yield PartitionSnapshot(oldest=unfinished, **numbers)


def _seen(assignment: Assignment, held: Mapping[Lane, Hold]) -> _Seen:
    """Look through a partition's own lanes, once: there may be thousands."""
    seen = _Seen()
    seen.lanes = len(assignment.lanes)
    for lane in assignment.lanes.values():
        head = lane.head
        if lane.running:
            seen.running += lane.running
            seen.begun.append(lane)
        elif held and lane in held:
            seen.note_hold(lane, held[lane])
        if head is None:
            # Just run empty; it may have got a record behind it since.
            if lane.rest:
                seen.least = min(seen.least, lane.rest[0].offset())
        elif (offset := head.offset()) < seen.lane_offset:
            seen.lane, seen.lane_offset = lane, offset
    seen.least = min(seen.least, seen.lane_offset)
    return seen


def _seen_in_shared(lanes: Mapping[Hashable, Lane], held: Mapping[Lane, Hold]) -> Mapping[Assignment, _Seen]:
    """Look through lanes that partitions share: their records are taken one by one."""
    found: defaultdict[Assignment, _Seen] = defaultdict(_Seen)
    for lane in lanes.values():
        seen = found[lane.assignment]
        seen.lanes += 1
        if lane.running:
            seen.running += lane.running
            seen.begun.append(lane)
        elif held and lane in held:
            seen.note_hold(lane, held[lane])
        head = lane.head
        if head is not None and (offset := head.offset()) < seen.lane_offset:
            seen.lane, seen.lane_offset = lane, offset
            seen.least = min(seen.least, offset)
        for home, message in lane.rest or ():
            its = found[home]
            if (offset := message.offset()) < its.least:
                its.least = offset
    return found


def _numbers(
    context: IntakeContext, route: Route, assignment: Assignment, seen: _Seen, now_s: float
) -> tuple[dict[str, Any], dict[str, Any] | None, Hashable]:
    """Return what a partition's picture and its oldest record's are made of, and that one's key."""
    partition = assignment.partition
    committed = context.ledger.acknowledged(partition)
    # Last: what ends meanwhile has its outputs in the book by then.
    outputs = WaitingOutputs(context.outputs, assignment, seen.begun)
    oldest, key = _oldest(route, assignment, seen, outputs, now_s)
    if oldest is not None:
        oldest["is_stuck"] = oldest["age_s"] > context.stuck_s + oldest.get("deadline_s", 0.0)
    watermark = _watermark(assignment, seen, outputs)
    numbers = dict(
        partition=partition,
        epoch=assignment.epoch,
        lag_records=_lag_records(context, assignment, watermark, outputs.ended_records),
        backlog_records=assignment.backlog_records,
        backlog_bytes=assignment.backlog_bytes,
        parked_records=assignment.parked_records,
        parked_bytes=assignment.parked_bytes,
        parked_full_key=context.parked_full.get(partition),
        lanes=seen.lanes,
        watermark=watermark,
        committed=committed.next_offset if committed else None,
        received_records=assignment.received_records,
        finished_records=assignment.finished_records,
        skipped_records=assignment.skipped_records,
        dead_lettered_records=assignment.dead_lettered_records,
        paused=partition in context.flow.paused,
        standstill_s=context.standstill.lasts_s(partition, assignment.received_next or 0, now_s),
        catch_up_records=_catch_up_records(context, assignment, watermark, outputs.ended_records),
        in_flight_records=seen.running + _running_in_chunk(assignment),
        blocked_lanes=seen.blocked,
        is_paused_by_hand=partition in context.flow.by_hand,
        held_lanes=seen.held,
        **_log_numbers(context, assignment),
        unreadable=_unreadable(context, partition, now_s),
    )
    return numbers, oldest, key


def _log_numbers(context: IntakeContext, assignment: Assignment) -> dict[str, Any]:
    partition, contact = assignment.partition, context.contact
    known, leader = context.owned.logs.get(partition), contact.leaders.get(partition)
    numbers: dict[str, Any] = {"leader": "" if leader is None else leader.name}
    age_s = context.owned.logs.silence_s(partition, contact.now_s)
    # Just assigned, it is only not known yet.
    if age_s is not None and (known is not None or age_s >= contact.unreachable_s):
        numbers["log_age_s"] = age_s
    if known is not None and partition in context.flow.paused and known.start is not None:
        numbers["deleted_records"] = assignment.unread_below(known.start)
    return numbers


def _unreadable(context: IntakeContext, partition: TopicPartition, now_s: float) -> Unreadable | None:
    halted = context.unreadable.get(partition)
    if halted is None:
        return None
    return Unreadable(halted.offset, halted.reason, halted.is_batch, max(0.0, now_s - halted.since_s))


def _running_in_chunk(assignment: Assignment) -> int:
    return sum(len(chunk.in_flight()) for chunk in assignment.all_chunks())


def _watermark(assignment: Assignment, seen: _Seen, outputs: WaitingOutputs) -> int | None:
    """Return `Assignment.watermark()` of what was seen, below all that waits for its outputs."""
    if assignment.received_next is None:
        return None
    lowest = min(assignment.received_next, seen.least)
    if assignment.returned_from is not None:
        lowest = min(lowest, assignment.returned_from)
    if (chunk := assignment.first_chunk()) is not None:
        lowest = min(lowest, chunk.first_unfinished().offset())
    return outputs.lowest(lowest)


def _lag_records(
    context: IntakeContext, assignment: Assignment, watermark: int | None, ended_records: int
) -> int | None:
    known, contact = context.owned.logs.get(assignment.partition), context.contact
    if known is None or contact.is_cut_off or contact.now_s - known.at_s >= contact.unreachable_s:
        return None
    end, received = known.end, assignment.received_next
    if received is None:
        # It begins with its log, wherever that is; one that ends at 0 has nothing.
        received = 0 if end == 0 else known.start
        if received is None:
            return None
    if end <= received and context.throttle.is_recent:
        return None  # a throttled answer is empty and without an end: nobody can tell what came meanwhile
    unfinished = assignment.unfinished_records
    if ended_records and watermark is not None:
        unfinished = max(unfinished, min(unfinished + ended_records, received - watermark))
    return max(0, end - received) + unfinished


def _catch_up_records(
    context: IntakeContext, assignment: Assignment, watermark: int | None, ended_records: int
) -> int | None:
    log = None if context.catch_up_ends is None else context.catch_up_ends.logs.get(assignment.partition)
    if log is None:
        return None
    received = assignment.received_next
    if received is None or watermark is None:
        return log.end - log.start
    # Some of what is unfinished may have come later.
    unfinished = min(assignment.unfinished_records + ended_records, max(0, log.end - watermark))
    return max(0, log.end - received) + unfinished


def _oldest(
    route: Route, assignment: Assignment, seen: _Seen, outputs: WaitingOutputs, now_s: float
) -> tuple[dict[str, Any] | None, Hashable]:
    """Return the oldest unfinished record, and its key, which is yet to be described."""
    dispatcher, lane, offset = route.dispatcher, seen.lane, seen.lane_offset
    chunk = assignment.first_chunk()
    if chunk is not None and (first := chunk.first_unfinished().offset()) < offset:
        lane, offset = _first_of(chunk, dispatcher), first
    if (waiting := outputs.lowest(offset)) < offset:
        return outputs.oldest(route, waiting, now_s)
    if lane is None:
        return None, None
    picture = unfinished_of(route, assignment, lane, offset, now_s)
    if picture["status"] == "deferred" and offset in outputs:
        picture |= SENDING  # with `acknowledged="before_next"` nobody else is to answer
    return picture, lane.key


def unfinished_of(
    route: Route, assignment: Assignment, lane: Lane, offset: int, now_s: float
) -> dict[str, Any]:
    """Return what the picture of the record at a lane's head is made of, but for its key.

    Caller has the lock.
    """
    dispatcher = route.dispatcher
    mark = assignment.mark_at(offset)
    hold = dispatcher.holds.held.get(lane) or dispatcher.decisions.awaited.get(lane)
    state = "running" if lane.running else "queued"
    return dict(  # noqa: C408 - the fields' names
        offset=offset,
        age_s=max(0.0, now_s - mark.received_at_s) if mark else 0.0,
        attempts=lane.attempts,
        state=_waits_for(hold.decision) if hold else state,
        last_error=lane.last_error if lane.attempts else "",
        is_on_hold=hold is not None and isinstance(hold.decision, HoldHead),
        deadline_s=route.deadline_s if lane.running else 0.0,
        status=status_of(dispatcher, lane),
        handler=route.handler,
        lane_records=len(lane),
    )


def status_of(dispatcher: Dispatcher, lane: Lane) -> str:
    """Return what a lane does, in one word of `Unfinished.status`. Caller has the lock."""
    if lane in dispatcher.decisions.diverting:
        return "sending"
    hold = dispatcher.holds.held.get(lane)
    if hold is None:
        if lane in dispatcher.decisions.awaited:
            return "deferred"
        return "running" if lane.running else "queued"
    if isinstance(hold.decision, RetryHead):
        return "waiting"
    return "paused" if hold.decision is PAUSED else "held"


def _first_of(chunk: Chunk, dispatcher: Dispatcher) -> Lane:
    """Return a lane of nobody's with the first record of a chunk, as it would have one."""
    assert dispatcher.express is not None
    message = chunk.first_unfinished()
    lane = Lane(dispatcher.express.key_of_first(chunk), chunk.assignment, message)
    lane.running = chunk.started() > 0
    return lane


def _waits_for(decision: Decision) -> str:
    if isinstance(decision, RetryHead):
        return f"waiting {seconds(decision.after_s)} for its next attempt"
    return decision.reason
