"""The dispatcher: spreads received records over lanes, lends ready lanes to workers, takes them back.

A pure state machine: no lock, thread or clock of its own; time comes in as an argument. Who may call what:

| call | by | needs the lock |
|---|---|---|
| `assign`, `receive`, `drain`, `end`, `open` | poll thread | yes |
| `begin` | any worker | no |
| `settle` | whoever got the lock | yes |
| `unpark_due`, key commands | poll thread | yes |
| `decisions.complete` | whoever got the lock | yes |

A worker holds a lane from `begin` until it is settled, calls the handler for each head for which
`Lane.may_run_head` says yes, and moves on with `Lane.advance`. One dispatcher belongs to one handler.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.cuts import Cuts
from ehkafka.lanes.decision import AwaitHead, HoldHead
from ehkafka.lanes.decisions import Decisions
from ehkafka.lanes.holds import PAUSED, Holds
from ehkafka.lanes.lane import Lane, SharedLane
from ehkafka.lanes.late import LateLanes
from ehkafka.lanes.slices import Slices
from ehkafka.lanes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Sequence

    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.cuts import Work
    from ehkafka.lanes.decision import AfterDeadLetter
    from ehkafka.lanes.express import Express
    from ehkafka.lanes.finished import FinishedBefore
    from ehkafka.lanes.order import KeyReader, Scope
    from ehkafka.records import Message, TopicPartition


class Dispatcher:
    """Lanes of one handler over all partitions it is assigned."""

    def __init__(self, scope: Scope = "partition") -> None:
        self.scope: Scope = scope
        # Lanes that may run and that nobody holds. Filled under the lock, popped by any worker without it: a
        # pop is one C call, so no lane is lent twice. A cut may free or empty a lane that still stands here.
        self.ready: deque[Lane] = deque()
        # Changed by the poll thread alone, under the lock. A lane keeps its own assignment, so what comes
        # late is never looked up here and counted for the next epoch.
        self.assignments: dict[TopicPartition, Assignment] = {}
        # Received without an outcome and not parked, over all assignments; then what is parked. Written
        # under the lock, read by the poll thread.
        self.backlog_records = 0
        self.backlog_bytes = 0
        self.parked_records = 0
        self.parked_bytes = 0
        # Only ever rise. The poll loop compares them without the lock to see whether anything moved.
        self.received_records = 0
        self.finished_records = 0
        self.skipped_records = 0
        self.dead_lettered_records = 0
        self.returned_records = 0
        # Of what came into the backlog, and of what was returned.
        self.received_bytes = 0
        self.returned_bytes = 0
        self.stale_records = 0
        # Of the finished ones, those that ran in chunks to their end.
        self.chunk_records = 0
        # Of the finished ones, those that an earlier epoch had finished: no handler was called for them here.
        self.restored_records = 0
        # Late results of ended epochs, as (assignment, records), for the poll thread to tell: whoever settles
        # has the lock, under which no event is emitted.
        self.stale: deque[tuple[Assignment, int]] = deque()
        # One map for all partitions where keys are as wide as the handler: a key's next lane must be found by
        # whichever partition its next record comes from.
        self._shared_lanes: dict[Hashable, Lane] | None = {} if scope == "handler" else None
        self._shared_after_letter: dict[Hashable, AfterDeadLetter] | None = {} if scope == "handler" else None
        self.holds = Holds(self)
        self.decisions = Decisions(self)
        self._cuts = Cuts(self)
        # Set by `use_express`, before the first record; read on the poll thread and by who settles.
        self.express: Express | None = None

    def use_express(self, reader: KeyReader) -> Streams:
        """Let records go in chunks where that is possible. Before the first one; scope: the partition."""
        assert self._shared_lanes is None
        self.express = streams = Streams(self, reader)
        return streams

    def use_slices(self, reader: KeyReader, records_max: int) -> Slices:
        """Let batches of so many records take chunks whole. Before the first one; scope: the partition."""
        assert self._shared_lanes is None
        self.express = slices = Slices(self, reader, records_max)
        return slices

    def use_late_lanes(self, reader: KeyReader) -> LateLanes:
        """Let records get their lanes as they are taken. Before the first one; scope: the partition."""
        assert self._shared_lanes is None
        self.express = late = LateLanes(self, reader)
        return late

    @property
    def outcomes(self) -> int:
        """How many records have ended in any way."""
        return self.finished_records + self.skipped_records + self.dead_lettered_records

    @property
    def handled_bytes(self) -> int:
        """How many bytes of values, keys and headers the records had that have an outcome."""
        return self.received_bytes - self.backlog_bytes - self.parked_bytes - self.returned_bytes

    @property
    def unfinished_records(self) -> int:
        """How many records were received and have no outcome, parked ones included."""
        return self.backlog_records + self.parked_records

    def assign(
        self,
        partition: TopicPartition,
        epoch: int,
        *,
        finished_before: FinishedBefore | None = None,
        opened: bool = True,
    ) -> Assignment:
        """Begin an epoch. With `opened=False` its records wait for `open`."""
        assert partition not in self.assignments, f"{partition} is assigned twice"
        assignment = Assignment(
            partition,
            epoch,
            lanes=self._shared_lanes,
            after_letter=self._shared_after_letter,
            finished_before=finished_before,
            opened=opened,
        )
        self.assignments[partition] = assignment
        return assignment

    def open(self, assignment: Assignment) -> None:
        """Let the records of an assignment start, now that the user's code is ready for them."""
        assignment.opened = True
        self.ready.extend(assignment.unopened)
        assignment.unopened.clear()

    def receive(
        self,
        assignment: Assignment,
        messages: Sequence[Message],
        keys: Sequence[Hashable] | None,
        now_s: float,
        skipped: Container[int] = (),
        size: int | None = None,
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Queue one partition's records, ascending, each behind the others of its key.

        Where `takes_unread` says so, `keys` may be None: they are read if and when they are needed.

        Offsets in `skipped` get that outcome as they arrive: they are too old to be handled. `keys` are
        what `KeyReader.keys` gave for the other messages. `size` is that of all messages in bytes, `sizes`
        that of each, where they are known.
        """
        # Before anything may start: the watermark and the drain's limit reckon from what was received.
        assignment.note_received(messages, now_s)
        self.received_records += len(messages)
        if skipped:
            messages = self._without_skipped(assignment, messages, skipped)
        if assignment.finished_before is not None:
            messages, keys = self._without_finished(assignment, messages, keys)
            sizes = size = None
        # Counted in now and counted out with the same bytes: a handler may set another value meanwhile.
        if size is None or skipped:
            sizes = sizes_of(messages)
            size = sum(sizes)
        assignment.backlog_records += len(messages)
        assignment.backlog_bytes += size
        self.backlog_records += len(messages)
        self.backlog_bytes += size
        self.received_bytes += size
        express = self.express
        # Keys that were not read force a chunk, even if workers have switched express off since the hint.
        if express is not None and (keys is None or express.takes(assignment)):
            if messages:
                express.receive(assignment, messages, size, keys)
                express.go_on()
        else:
            assert keys is not None
            self.spread(assignment, messages, keys, sizes)

    def takes_unread(self, assignment: Assignment) -> bool:
        """Tell whether `receive` needs no keys for an assignment now. Needs no lock."""
        express = self.express
        return express is not None and not express.keeps_keys and express.takes(assignment)

    def spread(
        self,
        assignment: Assignment,
        messages: Sequence[Message],
        keys: Sequence[Hashable],
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Put records that count in the backlog into lanes."""
        holds = self.holds
        careful = (
            assignment.shared
            or assignment.after_letter
            or holds.held
            or holds.paused_keys
            or assignment.owners  # what a stream has must not run in a lane
        )
        spread = self._spread_with_care if careful else self._spread
        spread(assignment, zip(keys, messages, sizes or sizes_of(messages), strict=True))

    def _spread(self, assignment: Assignment, records: Iterable[tuple[Hashable, Message, int]]) -> None:
        lanes = assignment.lanes
        push = (self.ready if assignment.opened else assignment.unopened).append
        for key, message, size in records:
            lane = lanes.get(key)
            if lane is None:
                lanes[key] = lane = Lane(key, assignment, message, size)
                push(lane)
            else:
                # Ready, held by a worker, or on hold: whoever has it will come to this record.
                lane.append(message)

    def _spread_with_care(
        self, assignment: Assignment, records: Iterable[tuple[Hashable, Message, int]]
    ) -> None:
        """Spread while some lanes wait, some keys follow a letter, or lanes are shared."""
        lanes, held = assignment.lanes, self.holds.held
        for key, message, size in records:
            lane = lanes.get(key)
            if lane is None:
                kind = SharedLane if assignment.shared else Lane
                lanes[key] = lane = kind(key, assignment, message, size)
                if (owner := assignment.owners.get(key)) is None or owner.has_finished(key):
                    self.make_ready(lane)
                else:
                    assert owner.behind is not None
                    owner.behind.append(lane)
                continue
            if isinstance(lane, SharedLane):
                lane.append(message, assignment)
            else:
                lane.append(message)
            if lane in held:
                self.holds.park(assignment, 1, size)

    def _without_skipped(
        self, assignment: Assignment, messages: Sequence[Message], skipped: Container[int]
    ) -> list[Message]:
        kept = [message for message in messages if message.offset() not in skipped]
        done = len(messages) - len(kept)
        assignment.is_extent_due = True
        assignment.skipped_records += done
        self.skipped_records += done
        return kept

    def _without_finished(
        self, assignment: Assignment, messages: Sequence[Message], keys: Sequence[Hashable] | None
    ) -> tuple[list[Message], list[Hashable] | None]:
        # What an earlier epoch finished counts as received and finished, so the watermark passes it.
        kept = assignment.fresh(messages)
        if kept is None:
            return list(messages), None if keys is None else list(keys)
        done = len(messages) - len(kept)
        assignment.restored_records += done
        self.restored_records += done
        assignment.finished_records += done
        self.finished_records += done
        return [messages[n] for n in kept], None if keys is None else [keys[n] for n in kept]

    def begin(self) -> Lane | None:
        """Lend the lane that has been ready for longest; None when there is none. Needs no lock.

        The holder must look at `assignment.halted` before it starts each record, see `may_run_head`.
        """
        try:
            lane = self.ready.popleft()
        except IndexError:
            return None
        # Before the holder reads `halted`: who drains writes that one first and reads this one second, so no
        # record starts unnoticed above a drain's limit.
        lane.running = True
        return lane

    def settle(self, lanes: Iterable[Lane], now_s: float) -> None:
        """Take lanes back from their holders: count outcomes, carry out decisions, free or ready the lane."""
        records = size = 0
        ready = self.ready
        plain = not self.holds.paused_keys and self._shared_lanes is None
        if self.express is not None:
            lanes = self.express.settle(lanes)
        for lane in lanes:
            assignment = lane.assignment
            lane.running = False
            # Of an epoch that ended nothing counts: another member may have handled the record already.
            if assignment.ended:
                if isinstance(lane.decision, AwaitHead):
                    # Deferred: its work goes on somewhere, and a shared lane must not overtake it.
                    self.decisions.carry_out(lane, now_s)
                else:
                    self.settle_stale(lane)
                continue
            # The holder wrote these without the lock, but has let the lane go: nobody else writes them now.
            finished = lane.finished_records
            if finished:
                assignment.finished_records += finished
                assignment.backlog_records -= finished
                assignment.backlog_bytes -= lane.finished_bytes
                records += finished
                size += lane.finished_bytes
                lane.finished_records = lane.finished_bytes = 0
            if lane.decision is not None:
                self.decisions.carry_out(lane, now_s)
            elif lane.head is None and not lane.rest:
                self.free(lane)  # a cut may have freed it already, and its key may have a new lane
            elif plain and not assignment.halted:
                # A record may have come behind the head that its holder took last.
                lane.refill()
                ready.append(lane)
            else:
                self.make_ready(lane)
        self.finished_records += records
        self.backlog_records -= records
        self.backlog_bytes -= size
        if self.express is not None:
            self.express.go_on()

    def end_early(self, chunk: Chunk) -> Lane | None:
        """End a chunk after the record that runs; see `Express.end_early`."""
        assert self.express is not None
        lane = self.express.end_early(chunk)
        self.express.go_on()
        return lane

    def dissolve_chunks(self) -> None:
        """Put all records into lanes: something is to be done with those of a key."""
        if self.express is not None:
            for assignment in self.assignments.values():
                self.express.dissolve(assignment)

    def make_ready(self, lane: Lane) -> None:
        """Ready a lane that nobody holds, or free it if empty, minding drains, pauses and opening."""
        while lane.refill() and lane.assignment.halted and not lane.assignment.may_start(lane.head):
            if lane.attempts and not lane.assignment.ended:
                # It failed, and no later record of its key may pass it before its epoch has ended.
                self.holds.hold(lane, HoldHead(lane.last_error))
                return
            self._cuts.return_lane(lane.assignment, lane)
        if lane.head is None:
            self.free(lane)
        elif self.holds.is_paused(lane):
            self.holds.hold(lane, PAUSED)
        elif lane.key in lane.assignment.after_letter:
            self.decisions.follow_letter(lane)
        elif not lane.assignment.opened:
            lane.assignment.unopened.append(lane)
        else:
            self.ready.append(lane)

    def drain(self, assignment: Assignment, *, below_started: bool) -> None:
        """Cut one assignment short before it ends; see `Cuts.drain`."""
        self.drain_all([assignment], _always if below_started else None)

    def drain_all(self, assignments: Sequence[Assignment], fits: Callable[[Work], bool] | None) -> bool:
        """Cut assignments short before they end; see `Cuts.drain`."""
        return self._cuts.drain(assignments, fits)

    def end(self, assignment: Assignment) -> int:
        """End an epoch; return how many records were returned. See `Cuts.end`."""
        return self.end_all([assignment])[0]

    def end_all(self, assignments: Sequence[Assignment]) -> list[int]:
        """End epochs that end together; return how many records each returned. See `Cuts.end`."""
        for assignment in assignments:
            # Before any of them ends: a lane that one of them lets go must not start another's record.
            assignment.halted = True
            assignment.drain_limit = -1
        returned = [self._cuts.end(assignment) for assignment in assignments]
        # Of all partitions, so no one partition's end can take them away; no partition left, no key goes on.
        if self._shared_after_letter is not None and not self.assignments:
            self._shared_after_letter.clear()
            self.holds.forget_keys()
        return returned

    def drained(self, assignment: Assignment) -> bool:
        """Tell whether nothing of an assignment runs or could still run."""
        return not assignment.has_runnable(self.waits)

    def has_runnable(self) -> bool:
        """Tell whether any record of any assignment runs or could run without an outside event."""
        return any(assignment.has_runnable(self.waits) for assignment in self.assignments.values())

    def waits(self, lane: Lane) -> bool:
        """Tell whether a lane is on hold and nothing is on its way that will let it go."""
        return lane in self.holds.held and lane not in self.decisions.diverting

    def free(self, lane: Lane) -> None:
        """Drop an empty lane, unless its key has a new one."""
        # By identity: a cut frees lanes that workers still hold, and the key may have got a new one since,
        # with records that the watermark would pass if it went.
        lanes = lane.assignment.lanes
        if lanes.get(lane.key) is lane:
            del lanes[lane.key]

    def settle_stale(self, lane: Lane) -> None:
        """Drop what a holder did for an ended epoch, counted, and let a shared lane go on."""
        finished = lane.finished_records
        self.stale_records += finished
        # Counted apart: their handler ran, but the next owner will run it again.
        if finished:
            self.stale.append((lane.assignment, finished))
        lane.finished_records = lane.finished_bytes = 0
        lane.decision = None
        if self._shared_lanes is not None:
            # The head was of the ended epoch, finished or not; the lane goes on for the other partitions.
            lane.head = None
            lane.attempts = lane.retries_asked = 0
            self.make_ready(lane)


def _always(_work: Work) -> bool:
    return True
