"""Guards of lanes: who starts, who waits, who is freed, and what each decision does."""

from __future__ import annotations

from ehkafka.lanes.decision import AwaitHead, RetryHead
from ehkafka.lanes.decisions import Decisions
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.holds import Holds
from ehkafka.lanes.lane import Lane, SharedLane
from ehkafka.records import Outcome
from tests.kit.lane_bench import LaneBench
from tests.simulation.mutants.mutant import Mutant


def _a_retry_comes_early() -> bool:
    bench = LaneBench()
    bench.receive(bench.assign(), "a0")
    bench.fail_head(bench.begin()[0], RetryHead(5.0, "later"))
    bench.dispatcher.holds.unpark_due(1.0)
    return bool(bench.begin())


def _a_paused_key_runs() -> bool:
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    [lane] = bench.begin()
    bench.dispatcher.holds.pause_key(b"a")
    bench.finish(lane, records=1)
    return bool(bench.begin())


def _a_new_record_of_a_paused_key_runs() -> bool:
    bench = LaneBench()
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(bench.assign(), "a0")
    return bool(bench.begin())


def _a_begun_lane_is_cut() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.begin()
    bench.dispatcher.drain(assignment, below_started=False)
    return assignment.returned_records == 1


def _a_keys_new_lane_is_freed() -> bool:
    bench = LaneBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.dispatcher.drain(one, below_started=True)
    bench.receive(two, "a0")
    bench.settle(*bench.begin())
    return two.watermark() != 0


def _a_lane_above_the_limit_is_ready() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.fail_head(bench.begin_key("a"), RetryHead(60.0, "later"))
    [begun] = bench.begin()
    bench.dispatcher.drain(assignment, below_started=True)
    assert not begun.may_run_head()
    bench.settle(begun)
    return not bench.dispatcher.drained(assignment)


def _an_exchanged_head_starts_unopened() -> bool:
    bench = LaneBench("handler")
    one = bench.assign(0)
    bench.receive(one, "a0")
    bench.receive(bench.assign(1, opened=False), "a7")
    bench.dispatcher.end(one)
    return bench.begin()[0].may_run_head()


def _the_next_record_inherits_attempts() -> bool:
    bench = LaneBench("handler")
    one = bench.assign(0)
    bench.receive(one, "a0")
    bench.receive(bench.assign(1), "a0")
    bench.fail_head(bench.begin()[0], RetryHead(5.0, "later"))
    bench.dispatcher.end(one)
    return bench.begin()[0].attempts == 1


def _what_is_too_old_is_not_counted() -> bool:
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1", skipped={0, 1})
    return bench.dispatcher.skipped_records != 2


def _a_held_key_goes_on_after_a_dead_letter() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.fail_head(bench.begin()[0], AwaitHead("letter", lambda _: None, after="hold_key"))
    ticket = bench.dispatcher.decisions.outbox.pop()
    bench.dispatcher.decisions.complete(ticket, Outcome.DEAD_LETTERED, 0.0)
    bench.receive(assignment, "a1")
    bench.work()
    return bench.started != ["a0"]


def _a_shared_lane_overtakes_what_was_deferred() -> bool:
    bench = LaneBench("handler")
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    bench.receive(two, "a0")
    (lane,) = bench.begin()
    bench.dispatcher.end(one)
    lane.decision = AwaitHead("elsewhere", lambda _: None)
    bench.settle(lane)
    return bench.begin() != []


MUTANTS = [
    Mutant("settle takes results of ended epochs", Dispatcher.settle, "if assignment.ended:", "if False:"),
    Mutant(
        "settle frees a lane with records",
        Dispatcher.settle,
        "elif lane.head is None and not lane.rest:",
        "elif lane.head is None:",
    ),
    Mutant(
        "settle frees the key's new lane",
        Dispatcher.settle,
        "self.free(lane)",
        "assignment.lanes.pop(lane.key, None)",
        _a_keys_new_lane_is_freed,
    ),
    Mutant(
        "settle readies a lane though the partition drains",
        Dispatcher.settle,
        "elif plain and not assignment.halted:",
        "elif plain:",
        _a_lane_above_the_limit_is_ready,
    ),
    Mutant(
        "a failed lane is ready and held",
        Decisions.decide,
        "self._dispatcher.holds.hold(lane, decision, due_s=now_s + decision.after_s)",
        "self._dispatcher.holds.hold(lane, decision, due_s=now_s); self._dispatcher.ready.append(lane)",
    ),
    Mutant(
        "a held head is given up",
        Decisions.decide,
        "self._dispatcher.holds.hold(lane, decision)",
        "self.give(lane, Outcome.SKIPPED)",
    ),
    Mutant(
        "an awaited head does not count as running",
        Decisions._await,
        "lane.running = True",
        "pass",
    ),
    Mutant(
        "a shared lane overtakes what an ended epoch deferred",
        Dispatcher.settle,
        "if isinstance(lane.decision, AwaitHead):",
        "if False:",
        _a_shared_lane_overtakes_what_was_deferred,
    ),
    Mutant(
        "a key goes on though an earlier record was dead-lettered",
        Dispatcher.make_ready,
        "elif lane.key in lane.assignment.after_letter:",
        "elif False:",
        _a_held_key_goes_on_after_a_dead_letter,
    ),
    Mutant(
        "a new record overtakes its key's letter",
        Dispatcher.spread,
        " or assignment.after_letter",
        "",
        _a_held_key_goes_on_after_a_dead_letter,
    ),
    Mutant(
        "followers of a parked head stay in the backlog",
        Dispatcher._spread_with_care,
        "self.holds.park(assignment, 1, size)",
        "pass",
    ),
    Mutant("a cut takes a running head", Lane._cut_head, "not self.running and ", ""),
    Mutant(
        "a cut takes other partitions' records",
        SharedLane.cut,
        "home is of and message.offset() > above",
        "message.offset() > above",
    ),
    Mutant(
        "a cut head leaves its failed calls to the next",
        Lane._cut_head,
        "self.attempts = 0",
        "pass",
        _the_next_record_inherits_attempts,
    ),
    Mutant("a late result keeps the shared lane's head", Dispatcher.settle_stale, "lane.head = None", "pass"),
    Mutant("a lent lane is not marked", Dispatcher.begin, "lane.running = True", "", _a_begun_lane_is_cut),
    Mutant(
        "what was finished before runs again",
        Dispatcher.receive,
        "if assignment.finished_before is not None:",
        "if False:",
    ),
    Mutant(
        "records start before the partition is open",
        Dispatcher._spread,
        "self.ready if assignment.opened else assignment.unopened",
        "self.ready",
    ),
    Mutant(
        "a shared lane starts another partition's unopened record",
        SharedLane.may_run_head,
        "self.assignment.opened and super().may_run_head()",
        "Lane.may_run_head(self)",
        _an_exchanged_head_starts_unopened,
    ),
    Mutant("a retry comes early", Holds.unpark_due, "due_s <= now_s", "True", _a_retry_comes_early),
    Mutant(
        "a pause is not honoured at the hand-in",
        Dispatcher.make_ready,
        "self.holds.is_paused(lane)",
        "False",
        _a_paused_key_runs,
    ),
    Mutant(
        "a pause is not honoured for new records",
        Dispatcher.spread,
        "or holds.paused_keys",
        "",
        _a_new_record_of_a_paused_key_runs,
    ),
    Mutant(
        "what is skipped for its age is not counted",
        Dispatcher._without_skipped,
        "self.skipped_records += done",
        "pass",
        _what_is_too_old_is_not_counted,
    ),
]
