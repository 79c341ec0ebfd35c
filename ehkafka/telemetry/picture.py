"""Takes the snapshot: reads routes and assignments under their locks, one after another.

Called from any thread. Each route's numbers are of one moment; different routes differ by microseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ehkafka.lanes.lane import Lane
from ehkafka.lanes.order import describe_key
from ehkafka.recovery.decision import HoldHead, RetryHead
from ehkafka.telemetry.snapshot import PartitionSnapshot, Unfinished
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.recovery.decision import Decision


def partition_snapshots(context: IntakeContext) -> tuple[PartitionSnapshot, ...]:
    """Return a picture of every partition that is ours, by name."""
    # A copy: the poll thread may change it meanwhile.
    owned = sorted(context.owned.copy().items())
    return tuple(_picture(context, one) for _, one in owned)


def _picture(context: IntakeContext, owned: OwnedPartition) -> PartitionSnapshot:
    route, assignment = owned
    partition = assignment.partition
    committed = context.ledger.acknowledged(partition)
    with route.exchange.locked() as dispatcher:
        watermark = assignment.watermark()
        here = list(assignment.lanes_here())
        oldest, key = _oldest(dispatcher, assignment, here, context.clock())
        picture = PartitionSnapshot(
            partition=partition,
            epoch=assignment.epoch,
            lag_records=_lag_records(context, assignment),
            backlog_records=assignment.backlog_records,
            backlog_bytes=assignment.backlog_bytes,
            parked_records=assignment.parked_records,
            parked_bytes=assignment.parked_bytes,
            parked_full_key=context.parked_full.get(partition),
            lanes=len(here),
            watermark=watermark,
            committed=committed.next_offset if committed else None,
            received_records=assignment.received_records,
            finished_records=assignment.finished_records,
            skipped_records=assignment.skipped_records,
            dead_lettered_records=assignment.dead_lettered_records,
            paused=partition in context.flow.paused,
            oldest=oldest,
        )
    # Described without the lock: a key may be of a user's type.
    return picture if oldest is None else replace(picture, oldest=replace(oldest, key=describe_key(key)))


def _lag_records(context: IntakeContext, assignment: Assignment) -> int | None:
    end = context.owned.log_ends.get(assignment.partition)
    received = assignment.received_next
    if end is None or received is None:
        return None
    if end <= received and context.throttle.is_recent:
        return None  # a throttled answer is empty and without an end: nobody can tell what came meanwhile
    return max(0, end - received) + assignment.unfinished_records


def _oldest(
    dispatcher: Dispatcher, assignment: Assignment, lanes: list[Lane], now_s: float
) -> tuple[Unfinished | None, Hashable]:
    """Return the oldest record without an outcome, and its key, which is yet to be described."""
    heads = [(lane.head.offset(), lane) for lane in lanes if lane.head is not None]
    if assignment.chunks:
        lane = _first_of(assignment.chunks[0], dispatcher)
        heads.append((assignment.chunks[0].first_unfinished().offset(), lane))
    if not heads:
        return None, None
    offset, lane = min(heads, key=lambda pair: pair[0])
    mark = assignment.mark_at(offset)
    ticket = dispatcher.verdicts.awaited.get(lane)
    hold = dispatcher.holds.held.get(lane) or ticket
    state = "running" if lane.running else "queued"
    oldest = Unfinished(
        offset=offset,
        key="",
        age_s=max(0.0, now_s - mark.received_at_s) if mark else 0.0,
        attempts=lane.attempts,
        state=_waits_for(hold.decision) if hold else state,
        last_error=lane.last_error if lane.attempts else "",
        is_on_hold=hold is not None and isinstance(hold.decision, HoldHead),
    )
    return oldest, lane.key


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
