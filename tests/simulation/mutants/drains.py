"""Guards of drains and ends: what still starts, what is returned and what is waited for."""

from __future__ import annotations

import pytest

from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.cuts import Cuts
from ehkafka.lanes.decision import AwaitHead, RetryHead
from ehkafka.lanes.decisions import Decisions
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.lane import Lane
from ehkafka.records import Outcome
from tests.kit.lane_bench import LaneBench
from tests.simulation.mutants.mutant import Mutant


def _what_does_not_fit_starts() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.begin_key("b")
    bench.dispatcher.drain_all([assignment], lambda _work: False)
    bench.work()
    return bench.started != []


def _a_record_above_a_failed_one_starts() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.fail_head(bench.begin_key("a"), RetryHead(60.0, "later"))
    bench.begin_key("c")
    bench.dispatcher.drain(assignment, below_started=True)
    bench.work()
    return bench.started != ["a0"]


def _with_a_failed_head(other: str) -> tuple[LaneBench, list[Assignment]]:
    """Return two partitions of one shared lane of key a, whose first head failed."""
    bench = LaneBench("handler")
    both = [bench.assign(0), bench.assign(1)]
    bench.receive(both[0], "a0")
    bench.receive(both[1], other)
    bench.fail_head(bench.begin_key("a"), RetryHead(1.0, "later"))
    return bench, both


def _a_failed_record_is_overtaken() -> bool:
    bench, (one, _) = _with_a_failed_head("a0")
    bench.dispatcher.drain(one, below_started=False)
    bench.work()
    return bench.started != ["a0"]


def _a_failed_record_that_is_due_is_overtaken() -> bool:
    bench, (one, _) = _with_a_failed_head("a0")
    bench.dispatcher.holds.unpark_due(1.0)
    bench.dispatcher.drain(one, below_started=False)
    bench.work()
    return bench.started != ["a0"]


def _a_record_that_fails_in_a_drain_is_overtaken() -> bool:
    bench, (one, _) = _with_a_failed_head("a0")
    bench.dispatcher.drain(one, below_started=False)
    bench.dispatcher.holds.unpark_due(1.0)
    bench.work()
    return bench.started != ["a0"]


def _a_key_goes_on_between_two_ends() -> bool:
    bench, both = _with_a_failed_head("a0 b1")
    bench.begin_key("b")
    bench.dispatcher.drain_all(both, lambda _work: True)
    seen: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        end = Cuts.end

        def sample(cuts: Cuts, assignment: Assignment) -> int:
            ended = end(cuts, assignment)
            seen.extend(lane.key for lane in bench.dispatcher.ready if lane.may_run_head())
            return ended

        patch.setattr(Cuts, "end", sample)
        bench.dispatcher.end_all(both)
    return seen != []


def _diverting() -> tuple[LaneBench, Assignment]:
    bench = LaneBench()
    bench.dispatcher.decisions.divert = lambda _lane, *_reason: AwaitHead("letter", lambda _: None)
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    (lane,) = bench.begin()
    bench.fail_head(lane, RetryHead(60.0, "later"))
    bench.dispatcher.decisions.divert_key(lane, "no room")
    bench.dispatcher.drain(assignment, below_started=True)
    return bench, assignment


def _a_letter_is_begun_above_the_limit() -> bool:
    bench, _ = _diverting()
    decisions = bench.dispatcher.decisions
    decisions.complete(decisions.outbox.popleft(), Outcome.DEAD_LETTERED, 0.0)
    return bool(decisions.outbox)


def _a_letter_is_not_waited_for() -> bool:
    bench, assignment = _diverting()
    return bench.dispatcher.drained(assignment)


def _a_record_above_the_limit_starts() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    lanes = bench.begin(2)
    bench.dispatcher.drain(assignment, below_started=False)
    return any(lane.may_run_head() for lane in lanes)


def _a_hole_is_left_below_a_started_record() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    started = bench.begin_key("c")
    assert started.may_run_head()
    bench.dispatcher.drain(assignment, below_started=True)
    started.advance()
    bench.settle(started)
    bench.work()
    return assignment.watermark() != 3


def _a_drain_goes_up_to_what_is_no_record() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.begin_key("a")
    assignment.skip_to(4, 0.0)
    bench.dispatcher.drain(assignment, below_started=True)
    return assignment.returned_offsets != [1, 2]


MUTANTS = [
    Mutant(
        "a drain does not halt the holders",
        Cuts.drain,
        "assignment.halted = True",
        "assignment.halted = False",
        _a_record_above_the_limit_starts,
    ),
    Mutant(
        "a drain finishes nothing below the highest started",
        Cuts.drain,
        "if fits is not None:",
        "if False:",
        _a_hole_is_left_below_a_started_record,
    ),
    Mutant(
        "a drain begins what does not fit",
        Cuts.drain,
        "fits(self._work(assignments)) or self.drain(assignments, None)",
        "True",
        _what_does_not_fit_starts,
    ),
    Mutant(
        "a drain goes on above a head that waits",
        Cuts._limit,
        "*(head.offset() for head in heads if head is not None)",
        "",
        _a_record_above_a_failed_one_starts,
    ),
    Mutant(
        "a drain takes lanes on hold",
        Cuts._cut_lanes,
        "if not held_too and (lane in held or _waits_ready(assignment, lane)):",
        "if False:",
        _a_failed_record_is_overtaken,
    ),
    Mutant(
        "a cut takes a failed record that is ready for its retry",
        Cuts._cut_lanes,
        "(lane in held or _waits_ready(assignment, lane))",
        "lane in held",
        _a_failed_record_that_is_due_is_overtaken,
    ),
    Mutant(
        "a failed record is let go while its partition drains",
        Dispatcher.make_ready,
        "if lane.attempts and not lane.assignment.ended:",
        "if False:",
        _a_record_that_fails_in_a_drain_is_overtaken,
    ),
    Mutant(
        "partitions that leave together end one by one",
        Dispatcher.end_all,
        "assignment.drain_limit = -1",
        "pass",
        _a_key_goes_on_between_two_ends,
    ),
    Mutant(
        "a diverted key goes on above the drain's limit",
        Decisions._complete_held,
        "if self._is_above_drain(lane):",
        "if False:",
        _a_letter_is_begun_above_the_limit,
    ),
    Mutant(
        "a drain does not wait for a letter",
        Dispatcher.waits,
        "and lane not in self.decisions.diverting",
        "",
        _a_letter_is_not_waited_for,
    ),
    Mutant(
        "a drain is over at once",
        Dispatcher.drained,
        "not assignment.has_runnable(self.waits)",
        "True",
    ),
    Mutant(
        "holders ignore the drain's limit",
        Assignment.may_start,
        " and message.offset() <= self.drain_limit",
        "",
        _a_record_above_the_limit_starts,
    ),
    Mutant(
        "holders look at no halt",
        Lane.may_run_head,
        "not self.assignment.halted",
        "True",
        _a_record_above_the_limit_starts,
    ),
    Mutant(
        "started records are not known",
        Assignment.highest_started,
        "- started",
        "",
        _a_hole_is_left_below_a_started_record,
    ),
    Mutant(
        "what holds no record counts as started",
        Assignment.highest_started,
        "self.last_received",
        "self.received_next - 1",
        _a_drain_goes_up_to_what_is_no_record,
    ),
    Mutant(
        "the end leaves the epoch open",
        Cuts.end,
        "assignment.halted = assignment.ended = True",
        "assignment.halted = True",
    ),
]
