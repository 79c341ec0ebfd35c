"""Random histories of one dispatcher's lanes, with a model that knows what becomes of every record.

Those with chunks: `test_express_histories`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.records import Outcome
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.decision import Answer, Decision, Ticket
    from ehkafka.lanes.lane import Lane

PARTITIONS = 3
partitions = st.integers(0, PARTITIONS - 1)
keys = st.sampled_from("abc")


class DispatcherHistory(RuleBasedStateMachine):
    """Receive, begin, start, finish, fail, hand in, drain, end, assign, commands; in any order.

    The model: for each epoch, which offsets are unfinished; for each key, the records that wait.
    """

    scope = "partition"
    # What a key does after a letter by hand.
    after: Any = "continue"
    epochs = Bundle("epochs")

    def __init__(self) -> None:
        super().__init__()
        self.bench = LaneBench(self.scope)  # type: ignore[arg-type]
        self.epochs_of: dict[int, Assignment] = {}
        self.next_offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.unfinished: dict[Assignment, dict[int, str]] = {}
        # Handed back by nobody yet: the lane, and whether its handler runs (then its head's home).
        self.lent: list[tuple[Lane, Assignment | None]] = []
        # Deferred: no worker has them, their end is reported later.
        self.awaited: list[tuple[Ticket, Assignment]] = []
        self.finished_unsettled: dict[Lane, int] = {}
        self.watermarks: dict[Assignment, int] = {}
        self.drained_below: dict[Assignment, bool] = {}
        # Keys that are paused everywhere or in one assignment, and whether all are.
        self.paused: set[tuple[str, Assignment | None]] = set()
        self.all_paused = False
        # Letters by hand that are on their way, and the records that were to be sent.
        self.letters: list[Ticket] = []
        self.to_send: dict[Lane, set[tuple[Assignment, int]]] = {}
        self.bench.dispatcher.decisions.divert = self._divert

    # What the poll thread does.

    @rule(partition=partitions, opened=st.booleans())
    def assign(self, partition: int, opened: bool) -> None:
        """Begin an epoch where the last one left off, if the partition is free."""
        if partition in self.epochs_of:
            return
        # The unopened partition's shared lane is a known defect with a test of its own.
        opened = opened or self.scope == "handler"
        assignment = self.bench.assign(partition, opened=opened)
        self.epochs_of[partition] = assignment
        self.unfinished[assignment] = {}

    @rule(partition=partitions, text=st.lists(keys, min_size=1, max_size=4), hole=st.integers(0, 2))
    def receive(self, partition: int, text: list[str], hole: int) -> None:
        """Receive a batch, unless the epoch is being drained."""
        assignment = self.epochs_of.get(partition)
        if assignment is None or assignment.halted:
            return
        first = self.next_offsets[partition] + hole
        batch = {first + index: key for index, key in enumerate(text)}
        self.next_offsets[partition] = first + len(batch)
        self.unfinished[assignment].update(batch)
        self.bench.receive(assignment, " ".join(f"{key}{offset}" for offset, key in batch.items()))

    @rule(partition=partitions)
    def open(self, partition: int) -> None:
        """Open a partition."""
        if (assignment := self.epochs_of.get(partition)) is not None and not assignment.opened:
            self.bench.dispatcher.open(assignment)

    @rule(partition=partitions, below_started=st.booleans())
    def drain(self, partition: int, below_started: bool) -> None:
        """Cut an epoch short, once."""
        assignment = self.epochs_of.get(partition)
        if assignment is not None and not assignment.halted:
            self.bench.dispatcher.drain(assignment, below_started=below_started)

    @rule(partition=partitions)
    def end(self, partition: int) -> None:
        """End an epoch, drained or lost."""
        assignment = self.epochs_of.pop(partition, None)
        if assignment is not None:
            self.bench.dispatcher.end(assignment)
            self.next_offsets[partition] = assignment.watermark() or self.next_offsets[partition]
            del self.unfinished[assignment]
            everywhere = None if self.scope == "partition" or self.epochs_of else assignment
            self.paused = {
                (key, where) for key, where in self.paused if where is not assignment and everywhere is None
            }

    @rule(seconds=st.floats(0, 3))
    def pass_time(self, seconds: float) -> None:
        """Let retries come due."""
        self.bench.now_s += seconds
        self.bench.dispatcher.holds.unpark_due(self.bench.now_s)

    @rule(key=keys, command=st.sampled_from(["pause_key", "resume_key", "retry_key"]))
    def command(self, key: str, command: str) -> None:
        """Command a key."""
        known = {one for one in self.paused if one[0] == key}
        was = (key, None) in known
        done = getattr(self.bench.dispatcher.holds, command)(key.encode())
        if command == "retry_key":
            return
        self.paused -= known
        if command == "pause_key":
            self.paused.add((key, None))
        assert done is (not was if command == "pause_key" else bool(known))

    @rule(key=keys, partition=partitions, pauses=st.booleans())
    def command_in_one(self, key: str, partition: int, pauses: bool) -> None:
        """Pause or resume a key in one assignment; what is so already changes nothing."""
        assignment = self.epochs_of.get(partition)
        if assignment is None or self.scope == "handler":
            return
        holds, one = self.bench.dispatcher.holds, (key, assignment)
        was, everywhere = one in self.paused, (key, None) in self.paused
        done = (holds.pause_key if pauses else holds.resume_key)(key.encode(), assignment)
        assert done is (not everywhere and was is not pauses)
        if done:
            self.paused ^= {one}

    @rule(pauses=st.booleans())
    def command_all(self, pauses: bool) -> None:
        """Stop or start the handler; what is so already changes nothing."""
        holds = self.bench.dispatcher.holds
        assert (holds.pause_all if pauses else holds.resume_all)() is (self.all_paused is not pauses)
        self.all_paused = pauses

    @rule(key=keys, records=st.integers(1, 3))
    def skip(self, key: str, records: int) -> None:
        """Skip records of a key's held lanes."""
        for lane in self.bench.dispatcher.holds.held:
            if lane.key == key.encode() and lane.head is not None:
                for home, offset in _first(lane, records):
                    self.unfinished[home].pop(offset)
        self.bench.dispatcher.holds.skip_key(key.encode(), records=records)

    @rule(key=keys, records=st.integers(1, 3))
    def send_by_hand(self, key: str, records: int) -> None:
        """Send records of a held lane to the dead letters."""
        decisions = self.bench.dispatcher.decisions
        for lane in self.bench.dispatcher.holds.held:
            if lane.key == key.encode() and lane.head is not None and lane not in decisions.diverting:
                self.to_send[lane] = set(_first(lane, records))
                decisions.send_by_hand(lane, "by hand", len(self.to_send[lane]))
                self._take_letters()
                return

    def _divert(self, _lane: Lane, *_reason: str) -> AwaitHead:
        return AwaitHead("a letter by hand", self.letters.append, self.after)

    def _take_letters(self) -> None:
        """Begin what was put into the outbox: letters of those records alone that were to be sent."""
        outbox = self.bench.dispatcher.decisions.outbox
        while outbox:
            ticket = outbox.popleft()
            head = ticket.lane.head
            assert head is not None
            assert (ticket.lane.assignment, head.offset()) in self.to_send[ticket.lane]
            ticket.decision.begin(ticket)

    @precondition(lambda self: self.letters)
    @rule(
        data=st.data(),
        answer=st.sampled_from([Outcome.DEAD_LETTERED, Outcome.DEAD_LETTERED, HoldHead("nobody takes it")]),
        after=st.sampled_from(["continue", "continue", "hold_key"]),
    )
    def answer_letter(self, data: st.DataObject, answer: Answer, after: Any) -> None:
        """Tell what became of a letter; of one that nobody waits for any more it counts for nothing."""
        self.after = after
        self._answer_letter(self.letters.pop(data.draw(st.integers(0, len(self.letters) - 1))), answer)

    def _answer_letter(self, ticket: Ticket, answer: Answer) -> None:
        decisions, lane = self.bench.dispatcher.decisions, ticket.lane
        if decisions.diverting.get(lane) is ticket and answer is Outcome.DEAD_LETTERED:
            assert lane.head is not None
            del self.unfinished[lane.assignment][lane.head.offset()]
        for _ in range(2):
            decisions.complete(ticket, answer, self.bench.now_s)
        self._take_letters()

    # What the workers do.

    @rule()
    def begin(self) -> None:
        """Take a lane, which nobody has paused."""
        for lane in self.bench.begin():
            key = lane.key.decode()  # type: ignore[attr-defined]
            paused = self.all_paused or {(key, None), (key, lane.assignment)} & self.paused
            assert not (paused and lane.may_run_head()), f"{key} starts though it is paused"
            self.lent.append((lane, None))

    @precondition(lambda self: self.lent)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """Look at a lane that was taken and call the handler, or hand it in."""
        index = data.draw(st.integers(0, len(self.lent) - 1))
        lane, running = self.lent[index]
        if running is not None:
            return
        if not lane.may_run_head():
            self._hand_in(index)
            return
        assert lane.head is not None
        assignment, offset, key = lane.assignment, lane.head.offset(), lane.key.decode()  # type: ignore[attr-defined]
        self._assert_in_order(assignment, offset, key)
        self.lent[index] = (lane, assignment)

    @precondition(lambda self: self.lent)
    @rule(data=st.data(), hands_in=st.booleans())
    def finish(self, data: st.DataObject, hands_in: bool) -> None:
        """Let a running handler return."""
        index = data.draw(st.integers(0, len(self.lent) - 1))
        lane, assignment = self.lent[index]
        if assignment is None:
            return
        assert lane.head is not None
        if assignment in self.unfinished:
            del self.unfinished[assignment][lane.head.offset()]
            self.finished_unsettled[lane] = self.finished_unsettled.get(lane, 0) + 1
        self.lent[index] = (lane, None)
        if not lane.advance() or hands_in:
            self._hand_in(index)

    @precondition(lambda self: self.lent)
    @rule(data=st.data(), after=st.sampled_from(["continue", "hold_key"]))
    def defer(self, data: st.DataObject, after: Any) -> None:
        """Let a running handler return without an outcome: somebody else will tell."""
        index = data.draw(st.integers(0, len(self.lent) - 1))
        lane, assignment = self.lent[index]
        if assignment is None:
            return
        lane.decision = AwaitHead(
            "elsewhere", lambda ticket: self.awaited.append((ticket, assignment)), after
        )
        self._hand_in(index)
        ticket = self.bench.dispatcher.decisions.outbox.popleft()
        ticket.decision.begin(ticket)

    @precondition(lambda self: self.awaited)
    @rule(
        data=st.data(),
        answer=st.sampled_from([*Outcome, RetryHead(1.0, "later"), HoldHead("poison"), SkipHead("no")]),
    )
    def answer(self, data: st.DataObject, answer: Answer) -> None:
        """Tell what became of a deferred record, twice: the second answer counts for nothing."""
        ticket, assignment = self.awaited.pop(data.draw(st.integers(0, len(self.awaited) - 1)))
        head = ticket.lane.head
        assert head is not None
        if isinstance(answer, Outcome | SkipHead) and assignment in self.unfinished:
            del self.unfinished[assignment][head.offset()]
        for _ in range(2):
            self.bench.dispatcher.decisions.complete(ticket, answer, self.bench.now_s)

    @precondition(lambda self: self.lent)
    @rule(
        data=st.data(),
        decision=st.sampled_from([RetryHead(1.0, "later"), HoldHead("poison"), SkipHead("no")]),
    )
    def fail(self, data: st.DataObject, decision: Decision) -> None:
        """Let a running handler raise."""
        index = data.draw(st.integers(0, len(self.lent) - 1))
        lane, assignment = self.lent[index]
        if assignment is None:
            return
        assert lane.head is not None
        if isinstance(decision, SkipHead) and assignment in self.unfinished:
            del self.unfinished[assignment][lane.head.offset()]
        lane.decision = decision
        self._hand_in(index)

    def _hand_in(self, index: int) -> None:
        lane, _ = self.lent.pop(index)
        self.finished_unsettled.pop(lane, None)
        self.bench.settle(lane)

    def _assert_in_order(self, assignment: Assignment, offset: int, key: str) -> None:
        """No earlier record of the key in this epoch is unfinished, and none of it runs."""
        earlier = [o for o, k in self.unfinished[assignment].items() if k == key and o < offset]
        assert not earlier, f"{earlier} of key {key} wait, yet {offset} starts"
        running = [
            lane
            for lane, home in self._running()
            if home is not None
            and lane.key == key.encode()
            and (home is assignment or (self.scope == "handler" and not home.ended))
        ]
        assert not running, "two records of one key run at once"

    def _running(self) -> list[tuple[Lane, Assignment | None]]:
        return self.lent + [(ticket.lane, home) for ticket, home in self.awaited]

    def _unsettled(self) -> dict[Assignment, int]:
        """Return what finished and was not handed in yet, by assignment."""
        lent: dict[Assignment, int] = {}
        for lane, count in self.finished_unsettled.items():
            lent[lane.assignment] = lent.get(lane.assignment, 0) + count
        return lent

    def _lent_lanes(self) -> set[Lane]:
        return {lane for lane, _ in self.lent} | {ticket.lane for ticket, _ in self.awaited}

    # What must hold after every step.

    @invariant()
    def the_watermark_passes_no_unfinished_record(self) -> None:
        """Commit ≤ lowest unfinished received, and monotonic within an epoch."""
        for assignment in self.epochs_of.values():
            watermark = assignment.watermark()
            if watermark is None:
                continue
            assert watermark <= min(self.unfinished[assignment], default=watermark)
            assert watermark >= self.watermarks.get(assignment, 0)
            self.watermarks[assignment] = watermark

    @invariant()
    def the_counters_report_the_truth(self) -> None:
        """Backlog and parked are what is unfinished, less the returned, plus what is not handed in."""
        lent = self._unsettled()
        total = 0
        for assignment in self.epochs_of.values():
            expected = len(self.unfinished[assignment]) - assignment.returned_records
            expected += lent.get(assignment, 0)
            parked = assignment.parked_records
            assert assignment.backlog_records + parked == expected
            sizes = (assignment.backlog_bytes, assignment.parked_bytes)
            assert (2 * assignment.backlog_records, 2 * parked) == sizes, "one byte of key, one of value"
            total += expected
        dispatcher = self.bench.dispatcher
        assert dispatcher.backlog_records + dispatcher.parked_records == total
        assert dispatcher.parked_records == sum(map(len, dispatcher.holds.held))
        assert dispatcher.parked_bytes == 2 * dispatcher.parked_records

    @invariant()
    def every_lane_is_in_one_place(self) -> None:
        """Ready once, held, unopened or lent; a lane in no place is stuck for ever."""
        dispatcher = self.bench.dispatcher
        ready = list(dispatcher.ready)
        assert len(ready) == len(set(ready))
        lent = self._lent_lanes()
        held = set(dispatcher.holds.held)
        for assignment in self.epochs_of.values():
            unopened = set(assignment.unopened)
            for lane in assignment.lanes.values():
                places = (lane in ready) + (lane in held) + (lane in unopened) + (lane in lent)
                assert places == 1, f"{lane.key!r} is in {places} places"
                assert len(lane) or lane in lent, "an empty lane is not freed"

    def _work(self) -> None:
        while (one := self.bench.dispatcher.begin()) is not None:
            self.bench.finish(one)

    def _let_all_go(self) -> None:
        holds = self.bench.dispatcher.holds
        self.after = "continue"
        while self.letters:
            self._answer_letter(self.letters.pop(), Outcome.DEAD_LETTERED)
        holds.resume_all()
        for assignment in self.epochs_of.values():
            for key in "abc":
                holds.resume_key(key.encode(), assignment)
            if not assignment.opened:
                self.bench.dispatcher.open(assignment)
        for key in "abc":
            holds.resume_key(key.encode())
            holds.retry_key(key.encode())

    def teardown(self) -> None:
        """In the end all that may run runs, and nothing is left of it."""
        for index in reversed(range(len(self.lent))):
            lane, running = self.lent[index]
            if running is not None:
                lane.advance()
            self._hand_in(index)
        for ticket, _ in self.awaited:
            self.bench.dispatcher.decisions.complete(ticket, Outcome.FINISHED, self.bench.now_s)
        holds = self.bench.dispatcher.holds
        self._let_all_go()
        self._work()
        for partition, assignment in list(self.epochs_of.items()):
            # A failed record above the limit of its drain keeps its key until the epoch has ended.
            if assignment.halted and any(lane in holds.held for lane in assignment.lanes_here()):
                self.bench.dispatcher.end(self.epochs_of.pop(partition))
        for key in "abc":
            while holds.retry_key(key.encode()):
                self._work()
        self._work()
        for assignment in self.epochs_of.values():
            expected = assignment.received_next if assignment.returned_from is None else None
            assert expected is None or assignment.watermark() == expected
        assert self.bench.is_empty()


def _first(lane: Lane, records: int) -> list[tuple[Assignment, int]]:
    """Return home and offset of a lane's first records."""
    homes = [
        lane.assignment,
        *(one[0] if isinstance(one, tuple) else lane.assignment for one in lane.rest or ()),
    ]
    return [(home, one.offset()) for home, one in zip(homes, lane.messages(), strict=True)][:records]


class SharedDispatcherHistory(DispatcherHistory):
    """The same with one lane for a key over all partitions."""

    scope = "handler"


@pytest.mark.parametrize("history", [DispatcherHistory, SharedDispatcherHistory])
def test_random_histories_keep_every_promise(history: type[DispatcherHistory]) -> None:
    """Commits, order, counters and lanes are right after every step of random histories."""
    from hypothesis.stateful import run_state_machine_as_test  # noqa: PLC0415 - beside its only use

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        history, settings=settings(max_examples=150, stateful_step_count=50, deadline=None)
    )
