"""Guards of what is done by hand: whom a pause means, until when, and which records an action takes."""

from __future__ import annotations

from ehkafka.intake.flow import Amounts, FlowControl, FlowLimits
from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.cuts import Cuts
from ehkafka.lanes.decision import AwaitHead, HoldHead
from ehkafka.lanes.decisions import Decisions
from ehkafka.lanes.holds import Holds
from ehkafka.records import Outcome
from tests.kit.lane_bench import LaneBench
from tests.simulation.mutants.mutant import P0, Mutant


def _a_key_runs_though_it_is_paused_here() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.dispatcher.holds.pause_key(b"a", assignment)
    bench.receive(assignment, "a0")
    return bool(bench.begin())


def _a_stopped_handler_runs() -> bool:
    bench = LaneBench()
    bench.dispatcher.holds.pause_all()
    bench.receive(bench.assign(), "a0")
    return bool(bench.begin())


def _a_pause_outlives_its_epoch() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.dispatcher.holds.pause_key(b"a", assignment)
    bench.dispatcher.end(assignment)
    return bool(bench.dispatcher.holds.paused_keys)


def _a_resume_elsewhere_counts_here() -> bool:
    bench = LaneBench()
    first, second = bench.assign(0), bench.assign(1)
    bench.dispatcher.holds.pause_key(b"a", first)
    return bench.dispatcher.holds.resume_key(b"a", second)


def _a_chunk_outlives_the_stop() -> bool:
    bench = LaneBench(express=True)
    assert bench.dispatcher.express is not None
    bench.dispatcher.express.on = True
    bench.receive(bench.assign(), "a0 b1")
    bench.dispatcher.holds.pause_all()
    return bench.dispatcher.parked_records != 2


def _a_cut_lane_is_kept() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.dispatcher.end(assignment)
    bench.dispatcher.holds.pause_all()
    return bool(bench.dispatcher.holds.held)


def _a_resumed_key_stays_though_it_was_held() -> bool:
    """A record that failed must not run because somebody paused and resumed its key."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.fail_head(bench.begin()[0], HoldHead("poison"))
    holds = bench.dispatcher.holds
    holds.pause_key(b"a", assignment)
    holds.resume_key(b"a", assignment)
    return bool(bench.begin())


def _flow_resumes_what_is_paused_by_hand() -> bool:
    flow, load = FlowControl(FlowLimits()), Assignment(P0, 1)
    flow.pause_by_hand([P0])
    return bool(flow.to_resume([load], Amounts(0, 0), 0.0))


def _a_new_epoch_is_paused_by_hand() -> bool:
    flow = FlowControl(FlowLimits())
    flow.pause_by_hand([P0])
    flow.forget(P0)
    return bool(flow.by_hand)


def _sending(records: int) -> tuple[LaneBench, list[Assignment], Decisions]:
    """Have the first records of key `a`, of two partitions that share its lane, on their way."""
    bench = LaneBench("handler")
    homes = [bench.assign(0), bench.assign(1)]
    for home, record in ((0, "a0"), (1, "a0"), (0, "a1")):
        bench.receive(homes[home], record)
    lane = bench.begin()[0]
    bench.fail_head(lane, HoldHead("poison"))
    decisions = bench.dispatcher.decisions
    decisions.divert = lambda *_: AwaitHead("a letter", lambda _ticket: None, "continue")
    decisions.send_by_hand(lane, "by hand", records)
    return bench, homes, decisions


def _a_letter_is_of_a_later_record() -> bool:
    bench, homes, decisions = _sending(3)
    bench.dispatcher.end(homes[1])
    bench.receive(homes[0], "a2")
    sent = 0
    while decisions.outbox:
        decisions.complete(decisions.outbox.popleft(), Outcome.DEAD_LETTERED, 0.0)
        sent += 1
    return sent != 2


def _a_letter_is_of_the_next_record() -> bool:
    _, _, decisions = _sending(1)
    decisions.complete(decisions.outbox.popleft(), Outcome.DEAD_LETTERED, 0.0)
    return bool(decisions.outbox)


def _what_was_to_go_goes_after_a_retry() -> bool:
    bench, homes, decisions = _sending(2)
    late = decisions.outbox.popleft()
    bench.dispatcher.holds.retry_key(b"a", homes[0])
    lane = bench.begin()[0]
    bench.fail_head(lane, HoldHead("poison"))
    decisions.complete(late, Outcome.DEAD_LETTERED, 0.0)
    return bool(homes[0].dead_lettered_records)


MUTANTS = [
    Mutant(
        "a pause of one assignment counts nowhere",
        Holds.is_paused,
        "or lane.assignment in where ",
        "",
        _a_key_runs_though_it_is_paused_here,
    ),
    Mutant(
        "a stop of the handler is not looked at",
        Holds.is_paused,
        " or EVERY_KEY in paused",
        "",
        _a_stopped_handler_runs,
    ),
    Mutant(
        "a pause outlives its epoch",
        Cuts.end,
        "dispatcher.holds.forget_pauses(assignment)",
        "pass",
        _a_pause_outlives_its_epoch,
    ),
    Mutant(
        "a resume of one assignment counts for all",
        Holds.resume_key,
        "assignment not in (where or ())",
        "False",
        _a_resume_elsewhere_counts_here,
    ),
    Mutant(
        "a resume lets a failed record go",
        Holds._release_paused,
        " and self.held[lane].decision == PAUSED",
        "",
        _a_resumed_key_stays_though_it_was_held,
    ),
    Mutant(
        "a stop of the handler leaves chunks in line",
        Holds.pause_all,
        "self._dispatcher.dissolve_chunks()",
        "pass",
        _a_chunk_outlives_the_stop,
    ),
    Mutant(
        "a stop of the handler keeps lanes that were cut",
        Holds.pause_all,
        """if not isinstance(lane, Chunk):
            self._dispatcher.make_ready(lane)""",
        """if not isinstance(lane, Chunk):
            self.hold(lane, PAUSED)""",
        _a_cut_lane_is_kept,
    ),
    Mutant(
        "flow control resumes what is paused by hand",
        FlowControl.to_resume,
        "and load.partition not in self.by_hand",
        "",
        _flow_resumes_what_is_paused_by_hand,
    ),
    Mutant(
        "a new epoch is paused by hand",
        FlowControl.forget,
        "self.by_hand.discard(partition)",
        "pass",
        _a_new_epoch_is_paused_by_hand,
    ),
    Mutant(
        "letters by hand are counted, not named",
        Decisions._go_on_by_hand,
        """while messages and not any(message is messages[0] for message in left):
        messages.popleft()""",
        "messages.popleft()",
        _a_letter_is_of_a_later_record,
    ),
    Mutant(
        "a letter by hand takes the next record along",
        Decisions._go_on_by_hand,
        "if messages and not self._is_above_drain(lane):",
        "if not self._is_above_drain(lane):",
        _a_letter_is_of_the_next_record,
    ),
    Mutant(
        "a letter that a retry overtook gives an outcome",
        Decisions.forget_letter,
        "self.diverting.pop(lane, None)",
        "pass",
        _what_was_to_go_goes_after_a_retry,
    ),
]
