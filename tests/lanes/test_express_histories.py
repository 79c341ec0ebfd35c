"""Random histories of a dispatcher with chunks, against a model that knows what each handler did.

Workers move one step at a time, as threads may: take a lane or a chunk, start a record, return or raise, move
on, hand in. What is handed in waits until somebody settles, and everything the poll thread does may come in
between any two steps. What the model holds a dispatcher to is written where it is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import AwaitHead, SkipHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.holds import EVERY_KEY
from ehkafka.lanes.order import KeyFailure, KeyReader, by_key
from ehkafka.records import Outcome, TopicPartition
from tests.kit.simulated.message import SimulatedMessage
from tests.lanes.express_model import (
    BEGINNING,
    COMMANDS_IN_ONE,
    COMMANDS_TO_ALL,
    PARTITIONS,
    POISON,
    RARE,
    RECEIVED,
    WORKERS,
    Epoch,
    Worker,
    decisions,
    numbers,
    users_key,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.decision import Decision, Ticket
    from ehkafka.lanes.lane import Lane


class ExpressHistory(RuleBasedStateMachine):
    """Receive, run, steal, fail, settle, park, pause, drain and end, in any order."""

    order_by: Any = staticmethod(by_key)

    def __init__(self) -> None:
        super().__init__()
        self.reader = KeyReader(type(self).order_by)
        self.dispatcher = Dispatcher()
        self.express = self.dispatcher.use_express(self.reader)
        self.epochs: dict[int, Epoch] = {}
        self.next_offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.number = 0
        self.now_s = 0.0
        self.workers = [Worker() for _ in range(WORKERS)]
        # Handed in, and not settled yet.
        self.returned: list[Any] = []

    @initialize(**BEGINNING)
    def begin_with_something(self, opened: bool, batch: list[bytes], records_max: int, share: int) -> None:
        """Most of what can go wrong needs records; with room for streams they are streams."""
        self.express.on = not records_max
        self.express.records_max = records_max
        self.express.workers = share
        for partition in range(PARTITIONS):
            self.assign(partition, opened=opened or partition == 0)
            self.receive(partition, batch, hole=0, size=1, old=0)

    # What the poll thread does.

    @rule(**RARE)
    def do_something_rare(self, what: str, partition: int, key: bytes, flag: bool) -> None:
        """One rule for all of it, so that workers have more turns."""
        if what == "turn":
            self.express.on = flag
        elif what == "streams":
            self.express.on, self.express.records_max = False, 3 if flag else 0
        elif what == "assign":
            self.assign(partition, flag)
        elif what == "open":
            self.open(partition)
        elif what == "drain":
            self.drain(partition, below_started=flag)
        elif what == "end":
            self.end(partition)
        elif what == "time":
            self.now_s += 2.0 if flag else 0.5
            self.dispatcher.holds.unpark_due(self.now_s)
        elif what in COMMANDS_TO_ALL:
            getattr(self.dispatcher.holds, what)()
        elif what in COMMANDS_IN_ONE:
            if (epoch := self.epochs.get(partition)) is not None:
                command = getattr(self.dispatcher.holds, what.removesuffix(" in one"))
                command(self.lane_key(key), epoch.assignment)
        else:
            getattr(self.dispatcher.holds, what)(self.lane_key(key))

    def assign(self, partition: int, opened: bool) -> None:
        """Begin an epoch where the last one left off."""
        if partition in self.epochs:
            return
        self.number += 1
        assignment = self.dispatcher.assign(TopicPartition("t", partition), self.number, opened=opened)
        self.epochs[partition] = Epoch(assignment)

    @rule(**RECEIVED)
    def receive(self, partition: int, batch: list[bytes], hole: int, size: int, old: int) -> None:
        """Receive a batch, of which the first records may be too old to be handled."""
        epoch = self.epochs.get(partition)
        if epoch is None or epoch.assignment.halted:
            return
        first = self.next_offsets[partition] + hole
        self.next_offsets[partition] = first + len(batch)
        messages = [
            SimulatedMessage("t", partition, first + n, key, b"x" * size) for n, key in enumerate(batch)
        ]
        epoch.keys |= {message.offset(): message.key() for message in messages}  # type: ignore[misc]
        epoch.open |= {message.offset(): message.key() for message in messages[old:]}  # type: ignore[misc]
        unread = not old and self.dispatcher.takes_unread(epoch.assignment)
        keys = None if unread else self.reader.keys(messages[old:]) if messages[old:] else []  # type: ignore[arg-type]
        skipped = {message.offset() for message in messages[:old]}
        self.dispatcher.receive(epoch.assignment, messages, keys, self.now_s, skipped)  # type: ignore[arg-type]

    def open(self, partition: int) -> None:
        """Let a partition's records start."""
        if (epoch := self.epochs.get(partition)) is not None and not epoch.assignment.opened:
            self.dispatcher.open(epoch.assignment)

    @rule()
    def settle(self) -> None:
        """Take back what was handed in."""
        returned, self.returned = self.returned, []
        self.dispatcher.settle(returned, self.now_s)

    @rule(late=st.sampled_from([False, False, True]))
    def steal(self, late: bool) -> None:
        """End the chunk that is out, wherever its worker is, or one that somebody has ended already."""
        chunks = [worker.one for worker in self.workers if isinstance(worker.one, Chunk)]
        for chunk in chunks:
            if late or chunk is self.express.out or chunk in self.express.live:
                self.dispatcher.end_early(chunk)

    def drain(self, partition: int, *, below_started: bool) -> None:
        """Cut an epoch short, once."""
        epoch = self.epochs.get(partition)
        if epoch is None or epoch.assignment.halted:
            return
        # Past a held head all is repeated anyway.
        holds = any(lane in self.dispatcher.holds.held for lane in epoch.assignment.lanes.values())
        self.dispatcher.drain(epoch.assignment, below_started=below_started)
        epoch.leaves_no_hole = below_started and not holds
        if epoch.leaves_no_hole:
            assert max(epoch.running, default=-1) <= epoch.assignment.drain_limit

    def end(self, partition: int) -> None:
        """End an epoch, however far its drain is; the next one begins at its commit."""
        epoch = self.epochs.pop(partition, None)
        if epoch is None:
            return
        self.judge_watermark(epoch)
        drained = epoch.assignment.halted and self.dispatcher.drained(epoch.assignment)
        # Before the end, which forgets both.
        holds = bool(self.dispatcher.holds.held or self.dispatcher.holds.paused_keys)
        self.dispatcher.end(epoch.assignment)
        if epoch.watermark:
            self.next_offsets[partition] = epoch.watermark
        if drained and epoch.leaves_no_hole and not holds:
            repeated = [offset for offset in epoch.handled if offset >= epoch.watermark]
            assert not repeated, f"{repeated} have finished and will be handled again"

    def lane_key(self, key: bytes) -> Hashable:
        """Return what the order function makes of a key."""
        return ("own", key) if self.express.keeps_keys else key

    # What the workers do.

    @rule(
        number=st.integers(0, WORKERS - 1), fails=st.sampled_from([False, False, False, True]), how=decisions
    )
    def step(self, number: int, fails: bool, how: Decision) -> None:
        """Let one worker do the next thing it does without a lock."""
        worker = self.workers[number]
        if worker.state == "idle":
            worker.one = cast("Lane | Chunk | None", self.dispatcher.begin())
            worker.state = "idle" if worker.one is None else "looks"
        elif worker.state == "looks":
            self.check(worker)
        elif worker.state == "runs":
            self.leave_handler(worker, how if fails else None)
        else:
            self.take_failure_in(worker)

    @rule(number=numbers, times=st.integers(2, 12), settles=st.booleans())
    def run_on(self, number: int, times: int, settles: bool) -> None:
        """Let one worker go on for a while without a failure."""
        for _ in range(times):
            self.step(number, False, SkipHead("never"))
        if settles:
            self.settle()

    @rule(number=numbers, how=decisions, is_letter=st.booleans())
    def fail(self, number: int, how: Decision, is_letter: bool) -> None:
        """Let one worker's handler raise, up to the end of it; a dead letter holds its key."""
        worker = self.workers[number]
        if worker.state != "runs":
            return
        assert worker.one is not None
        assignment, offset = worker.one.assignment, worker.message.offset()
        tickets: list[Ticket] = []
        self.leave_handler(worker, AwaitHead("letter", tickets.append, "hold_key") if is_letter else how)
        self.take_failure_in(worker)
        self.settle()
        outbox = self.dispatcher.decisions.outbox
        while outbox:
            ticket = outbox.popleft()
            ticket.decision.begin(ticket)
        for ticket in tickets:
            self.left(assignment, offset, has_outcome=True)
            self.dispatcher.decisions.complete(ticket, Outcome.DEAD_LETTERED, self.now_s)

    def check(self, worker: Worker) -> None:
        """Start the next record, or hand in."""
        one = worker.one
        if isinstance(one, Chunk):
            assert one.iterator is not None
            worker.message = next(one.iterator, None)
            if worker.message is None:
                self.hand_in(worker)
                return
            assert worker.message.key() not in self.paused(), "a chunk starts a record of a paused key"
            assert self.reader.keys([worker.message])[0].__class__ is not KeyFailure
        else:
            assert one is not None
            if not one.may_run_head():
                self.hand_in(worker)
                return
            worker.message = one.head
            if isinstance(one.key, KeyFailure):
                worker.state, worker.decision = "raised", SkipHead("no key")
                return
        self.start(one.assignment, worker.message)
        worker.state = "runs"

    def paused(self) -> set[bytes]:
        """Return the record keys that are paused."""
        paused = self.dispatcher.holds.paused_keys
        if EVERY_KEY in paused:
            return {b"a", b"b", b"c", b"d", POISON}
        return {key for key in (b"a", b"b", b"c", b"d") if self.lane_key(key) in paused}

    def start(self, assignment: Assignment, message: Any) -> None:
        """A handler is called: once at a time for a key, in order, and only where it may be."""
        offset, key = message.offset(), message.key()
        assert not assignment.ended
        assert assignment.opened
        assert not assignment.halted or offset <= assignment.drain_limit, f"{offset} starts in a drain"
        epoch = self.epochs[assignment.partition.partition]
        assert epoch.assignment is assignment
        assert self.lane_key(key) not in assignment.after_letter, f"{offset} starts though its key is held"
        assert offset in epoch.open, f"{offset} has its outcome already"
        if self.ordered(key):
            earlier = [o for o, k in epoch.open.items() if k == key and o < offset]
            assert not earlier, f"{earlier} of key {key!r} are unfinished, yet {offset} starts"
            overlaps = [o for o in epoch.running if epoch.keys[o] == key]
            assert not overlaps, f"{overlaps} of key {key!r} run, yet {offset} starts"
        epoch.running.add(offset)

    def ordered(self, key: bytes) -> bool:
        """Whether records of this key have a lane in common."""
        return key != POISON or not self.express.keeps_keys

    def leave_handler(self, worker: Worker, decision: Decision | None) -> None:
        """Return from the handler, or raise."""
        assert worker.one is not None
        self.left(worker.one.assignment, worker.message.offset(), has_outcome=decision is None)
        worker.state, worker.decision = "raised", decision
        if decision is None:
            worker.state = "looks"
            if not isinstance(worker.one, Chunk) and not worker.one.advance():
                self.hand_in(worker)

    def left(self, assignment: Assignment, offset: int, *, has_outcome: bool) -> None:
        """Note in the model that a handler is over, unless its epoch is."""
        epoch = self.epochs.get(assignment.partition.partition)
        if epoch is None or epoch.assignment is not assignment:
            return
        epoch.running.discard(offset)
        if has_outcome:
            del epoch.open[offset]
            epoch.handled.add(offset)

    def take_failure_in(self, worker: Worker) -> None:
        """End the chunk, and hand the failed record's lane in with what was decided."""
        if isinstance(worker.one, Chunk):
            lane = self.dispatcher.end_early(worker.one)
            assert lane is not None
            assert lane.head is worker.message
            worker.one = lane
        assert worker.one is not None
        worker.one.decision = worker.decision  # type: ignore[union-attr]
        if isinstance(worker.decision, SkipHead):  # the worker tells, the settle counts
            self.left(worker.one.assignment, worker.message.offset(), has_outcome=True)
        self.hand_in(worker)

    def hand_in(self, worker: Worker) -> None:
        """Be done with a lane or a chunk."""
        self.returned.append(worker.one)
        worker.one, worker.message, worker.state, worker.decision = None, None, "idle", None

    # What must hold after every step.

    @invariant()
    def the_watermark_passes_no_unfinished_record(self) -> None:
        """At or below the lowest unfinished record, and never back."""
        for epoch in self.epochs.values():
            self.judge_watermark(epoch)

    def judge_watermark(self, epoch: Epoch) -> None:
        """Compare the watermark with the truth; where nothing is on its way, it is the truth."""
        watermark = epoch.assignment.watermark()
        if watermark is None:
            return
        truth = min(epoch.open, default=epoch.assignment.received_next)
        assert truth is not None
        assert epoch.watermark <= watermark <= truth
        epoch.watermark = watermark
        if self.is_quiet():
            assert watermark == truth, f"{watermark} stays behind {truth} though nothing runs"

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """What has no outcome is counted, in records and bytes, and is in one place."""
        for epoch in self.epochs.values():
            assignment = epoch.assignment
            there = sorted(message.offset() for message in assignment.unfinished())
            held = [lane for lane in assignment.lanes.values() if lane in self.dispatcher.holds.held]
            assert assignment.parked_records == sum(map(len, held))
            lost = [o for o in epoch.open if o not in there and not self.is_returned(assignment, o)]
            assert not lost, f"{lost} are nowhere"
            left = [o for o in epoch.open if not self.is_returned(assignment, o)]
            assert assignment.unfinished_records >= len(left)
            if self.is_quiet():
                # What failed above a drain's limit may still be on hold.
                assert set(left) <= set(there) <= set(epoch.open)
                assert assignment.unfinished_records == len(there)
                assert assignment.returned_records == len(epoch.open) - len(there)
        out = self.express.out
        assert out is None or (out.assignment.chunks and out.assignment.chunks[0] is out)

    @invariant()
    def every_record_is_under_its_own_key(self) -> None:
        """In its lane, and in what a chunk remembers of a user's function."""
        for epoch in self.epochs.values():
            for lane in epoch.assignment.lanes.values():
                if not isinstance(lane.key, KeyFailure):
                    assert {lane.key} == {self.lane_key(m.key()) for m in lane.messages()} or not len(lane)
            for chunk in epoch.assignment.all_chunks():
                if chunk.keys is not None and not chunk.needs_lanes:
                    assert chunk.keys == [self.lane_key(m.key()) for m in chunk.messages]  # type: ignore[arg-type]
            # A stream that took over a key which an earlier one had finished may end before that one.
            streams, owners = epoch.assignment.streams, epoch.assignment.owners
            assert set(owners.values()) <= set(streams)
            running = [(one, key) for one in streams for key in one.keys or () if not one.has_finished(key)]
            assert all(owners[key] is one for one, key in running)

    def is_quiet(self) -> bool:
        """Whether no worker has anything, and nothing is handed in."""
        return not self.returned and all(worker.state == "idle" for worker in self.workers)

    def is_returned(self, assignment: Assignment, offset: int) -> bool:
        """Whether a drain has left a record for redelivery."""
        return assignment.halted and offset > assignment.drain_limit

    def teardown(self) -> None:
        """In the end all that may run has run, each record once, and nothing is left of it."""
        self.dispatcher.holds.resume_all()
        for key in (b"a", b"b", b"c", b"d", POISON):
            self.dispatcher.holds.resume_key(self.lane_key(key))
        assert not self.dispatcher.holds.paused_keys
        for epoch in self.epochs.values():
            epoch.assignment.after_letter.clear()
        for epoch in self.epochs.values():
            if not epoch.assignment.opened:
                self.dispatcher.open(epoch.assignment)
        for _ in range(4_000):
            for number, worker in enumerate(self.workers):
                if worker.state == "raised":
                    worker.decision = SkipHead("at the end")
                self.step(number, False, SkipHead("never"))
            self.settle()
            self.now_s += 1.0
            self.dispatcher.holds.unpark_due(self.now_s)
            for lane in list(self.dispatcher.holds.held):
                self.dispatcher.holds.retry_key(lane.key)
            if self.is_quiet() and not self.dispatcher.ready:
                break
        for epoch in self.epochs.values():
            held = [lane for lane in self.dispatcher.holds.held if lane.assignment is epoch.assignment]
            failed = {message.offset() for lane in held for message in lane.messages()}
            waiting = {o for o in epoch.open if not self.is_returned(epoch.assignment, o)}
            assert waiting <= (failed if epoch.assignment.halted else set()), f"{waiting} are never run"
            self.judge_watermark(epoch)
            if epoch.assignment.halted:
                self.dispatcher.end(epoch.assignment)  # until then what failed keeps its key
            assert not epoch.assignment.lanes
            assert not epoch.assignment.has_chunks
            assert not epoch.assignment.owners
            assert (epoch.assignment.backlog_records, epoch.assignment.backlog_bytes) == (0, 0)
        assert (self.dispatcher.backlog_records, self.dispatcher.backlog_bytes) == (0, 0)
        assert (self.dispatcher.parked_records, self.dispatcher.parked_bytes) == (0, 0)
        assert self.express.out is None
        assert not self.express.live


class UsersExpressHistory(ExpressHistory):
    """The same with keys from a user's function, which raises for one of them."""

    order_by = staticmethod(users_key)


@pytest.mark.parametrize("history", [ExpressHistory, UsersExpressHistory])
def test_chunks_keep_every_promise_whatever_comes_between(history: type[ExpressHistory]) -> None:
    """Order, commits and counts after every step of random histories."""
    from hypothesis.stateful import run_state_machine_as_test  # noqa: PLC0415 - beside its only use

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        history,
        # Without the phase that explains: it traces every line, on the interpreters before 3.12.
        settings=settings(
            max_examples=80,
            stateful_step_count=50,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )
