"""Mutation check of the pure core: with any one guard removed, something goes red.

A mutant is the source of one function with one guard replaced. A guard that is no longer there fails the
test too: then the mutant is to be written anew, not dropped.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.intake.epochs import Epochs
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.cuts import Cuts
from ehkafka.lanes.decision import AwaitHead, RetryHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.express import Express
from ehkafka.lanes.finished import Extent, FinishedBefore
from ehkafka.lanes.holds import Holds
from ehkafka.lanes.lane import Lane, SharedLane
from ehkafka.lanes.verdicts import Verdicts
from ehkafka.progress.known import Known
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.saving import Detail, ProgressSaver
from ehkafka.records import Outcome, TopicPartition
from tests.kit.lane_bench import LaneBench
from tests.kit.simulated.plan import SimulationPlan
from tests.kit.simulated.simulator import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.records import Message

P0 = TopicPartition("t", 0)
SEEDS_MAX = 60


def _a_seed_is_red() -> bool:
    plans = (replace(SimulationPlan.drawn(seed), express=False) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def _an_express_seed_is_red() -> bool:
    plans = (SimulationPlan.drawn_with_chunks(seed) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


def _a_saving_seed_is_red() -> bool:
    return _is_red_with(express=False, saves_ranges=True)


def _a_saving_seed_with_chunks_is_red() -> bool:
    return _is_red_with(express=True, saves_ranges=True, scope="partition")


def _is_red_with(**changes: Any) -> bool:
    plans = (replace(SimulationPlan.drawn(seed), **changes) for seed in range(SEEDS_MAX))
    return any(not simulate(plan.seed, plan=plan).ok for plan in plans)


@dataclass(frozen=True)
class Mutant:
    """One guard less. `is_red` tells whether anything noticed."""

    name: str
    function: Callable[..., object]
    guard: str
    without: str
    is_red: Callable[[], bool] = _a_seed_is_red

    def __str__(self) -> str:
        return self.name

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function by its mutant."""
        source = textwrap.dedent(inspect.getsource(self.function))
        assert source.count(self.guard) == 1, f"the guard is not there any more: {self.guard}"
        module = sys.modules[self.function.__module__]
        code = "from __future__ import annotations\n" + source.replace(self.guard, self.without)
        made: dict[str, object] = {}
        exec(compile(code, f"<{self.name}>", "exec"), vars(module), made)
        owner, name = self.function.__qualname__.split(".")
        patch.setattr(getattr(module, owner), name, made[name])


def _said_without_a_look(bench: LaneBench, assignment: Assignment, saver: ProgressSaver) -> Any:
    for lane in bench.begin(1):
        bench.finish(lane)
    look = saver.look(assignment, Detail.KEPT)
    assert look is not None
    return saver.position(look).finished


def _what_was_restored_is_not_said() -> bool:
    bench = LaneBench()
    assignment = bench.assign(finished_before=[2])
    bench.receive(assignment, "a0 b1")
    saver = ProgressSaver(1_000)
    saver.begin(assignment, None)
    return _said_without_a_look(bench, assignment, saver) != ((2, 3),)


def _what_is_gone_is_said() -> bool:
    bench = LaneBench()
    assignment = bench.assign(finished_before=[1])
    assert assignment.finished_before is not None
    assignment.finished_before.leader_epoch = 1
    saver = ProgressSaver(1_000)
    saver.begin(assignment, None)
    bench.receive(assignment, "a0 b1", leader_epoch=2)
    look = saver.look(assignment, Detail.KEPT)
    return look is None or saver.position(look).finished != ()


def _what_lies_below_the_position_is_said() -> bool:
    bench = LaneBench()
    assignment = bench.assign(finished_before=[1, 3])
    bench.receive(assignment, "a0 b1 c2")
    saver = ProgressSaver(1_000)
    saver.begin(assignment, Position(1, 0, None, "text", ((1, 2), (3, 4))))
    saver._known[assignment.partition, assignment.epoch] = Known(((1, 2), (3, 4)))
    return _said_without_a_look(bench, assignment, saver) != ((3, 4),)


def _restored_ranges_are_forgotten() -> bool:
    bench = LaneBench()
    assignment = bench.assign(finished_before={1, 5})
    bench.receive(assignment, "a0 b1")
    extent = assignment.extent()
    return extent is None or extent.finished() != ((1, 2), (5, 6))


def _another_log_is_skipped() -> bool:
    bench = LaneBench()
    assignment = bench.dispatcher.assign(P0, 1, finished_before=FinishedBefore([(1, 9)], leader_epoch=3))
    bench.receive(assignment, "a0 b1", leader_epoch=4)
    return len(assignment.lanes) != 2


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

        def look(cuts: Cuts, assignment: Assignment) -> int:
            ended = end(cuts, assignment)
            seen.extend(lane.key for lane in bench.dispatcher.ready if lane.may_run_head())
            return ended

        patch.setattr(Cuts, "end", look)
        bench.dispatcher.end_all(both)
    return seen != []


def _diverting() -> tuple[LaneBench, Assignment]:
    bench = LaneBench()
    bench.dispatcher.verdicts.divert = lambda _lane, *_reason: AwaitHead("letter", lambda _: None)
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    (lane,) = bench.begin()
    bench.fail_head(lane, RetryHead(60.0, "later"))
    bench.dispatcher.verdicts.divert_key(lane, "no room")
    bench.dispatcher.drain(assignment, below_started=True)
    return bench, assignment


def _a_letter_is_begun_above_the_limit() -> bool:
    bench, _ = _diverting()
    verdicts = bench.dispatcher.verdicts
    verdicts.complete(verdicts.outbox.popleft(), Outcome.DEAD_LETTERED, 0.0)
    return bool(verdicts.outbox)


def _a_letter_is_not_waited_for() -> bool:
    bench, assignment = _diverting()
    return bench.dispatcher.drained(assignment)


def _refused_metadata_is_sent_again() -> bool:
    ledger = CommitLedger(CommitPacing())
    ledger.assigned(P0, 1, None)
    long = {P0: Position(1, 5, None, "long")}
    ledger.refuse_metadata(ledger.plan(long, 0.0, 0))
    return ledger.dirty(long) != {P0: Position(1, 5)}


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


def _a_record_behind_an_emptied_lane_is_passed() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.run_head(bench.begin()[0])
    bench.receive(assignment, "a1")
    return assignment.watermark() == 2


def _a_shared_watermark_passes_what_was_returned() -> bool:
    bench = LaneBench("handler")
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.begin_key("b")
    bench.dispatcher.drain(assignment, below_started=False)
    return assignment.watermark() != 0


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


def _a_record_above_the_limit_starts() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    lanes = bench.begin(2)
    bench.dispatcher.drain(assignment, below_started=False)
    return any(lane.may_run_head() for lane in lanes)


def _an_exchanged_head_starts_unopened() -> bool:
    bench = LaneBench("handler")
    one = bench.assign(0)
    bench.receive(one, "a0")
    bench.receive(bench.assign(1, opened=False), "a7")
    bench.dispatcher.end(one)
    return bench.begin()[0].may_run_head()


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


def _the_next_record_inherits_attempts() -> bool:
    bench = LaneBench("handler")
    one = bench.assign(0)
    bench.receive(one, "a0")
    bench.receive(bench.assign(1), "a0")
    bench.fail_head(bench.begin()[0], RetryHead(5.0, "later"))
    bench.dispatcher.end(one)
    return bench.begin()[0].attempts == 1


def _a_gap_holds_the_commit() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    assignment.skip_to(10, 0.0)
    return assignment.watermark() != 10


def _a_gaps_end_has_the_next_records_epoch() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    assignment.skip_to(10, 0.0)
    bench.receive(assignment, "a10", leader_epoch=6)
    mark = assignment.mark_at(9)
    return mark is not None and mark.leader_epoch == 6


def _a_drain_goes_up_to_what_is_no_record() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.begin_key("a")
    assignment.skip_to(4, 0.0)
    bench.dispatcher.drain(assignment, below_started=True)
    return assignment.returned_offsets != [1, 2]


def _offsets_come_again_in_one_epoch() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a3")
    try:
        assignment.skip_to(0, 0.0)
    except AssertionError:
        return False
    return True


def _what_is_too_old_is_not_counted() -> bool:
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1", skipped={0, 1})
    return bench.dispatcher.skipped_records != 2


def _resumes_above_half() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    load = Assignment(P0, 1)
    load.backlog_records = 1_000
    flow.to_pause([load], 1)
    load.backlog_records = 999
    return bool(flow.to_resume([load], 0, 0))


def _pauses_who_is_below_its_share() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    load = Assignment(P0, 1)
    load.backlog_records = 1
    return bool(flow.to_pause([load], 1))


def _a_held_key_goes_on_after_a_dead_letter() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.fail_head(bench.begin()[0], AwaitHead("letter", lambda _: None, after="hold_key"))
    ticket = bench.dispatcher.verdicts.outbox.pop()
    bench.dispatcher.verdicts.complete(ticket, Outcome.DEAD_LETTERED, 0.0)
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


def _a_full_parked_share_goes_on() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10, parked_records_max=100))
    assignment = Assignment(P0, 1)
    assignment.parked_records = 100
    return flow.to_pause_parked([assignment], 1) != [P0]


def _stays_paused_after_revoke() -> bool:
    flow = FlowControl(FlowLimits())
    flow.to_pause_all([Assignment(P0, 1)])
    flow.forget(P0)
    return bool(flow.paused)


def _ledger(next_offset: int | None = None) -> CommitLedger:
    ledger = CommitLedger(CommitPacing())
    ledger.assigned(P0, 2, None if next_offset is None else Position(2, next_offset))
    return ledger


def _an_old_epochs_answer_counts() -> bool:
    ledger = _ledger(5)
    ledger.confirm({P0: Position(1, 10)}, 1.0)
    return ledger.acknowledged(P0) != Position(2, 5)


def _an_old_epochs_position_is_sent() -> bool:
    return bool(_ledger().dirty({P0: Position(1, 10)}))


def _a_late_answer_lowers() -> bool:
    ledger = _ledger(10)
    ledger.confirm({P0: Position(2, 7)}, 1.0)
    return ledger.acknowledged(P0) != Position(2, 10)


def _an_unchanged_position_is_sent() -> bool:
    return bool(_ledger(10).dirty({P0: Position(2, 10)}))


def _two_commits_are_in_flight() -> bool:
    ledger = _ledger()
    ledger.plan({P0: Position(2, 10)}, 0.0, 0)
    return ledger.due(100.0, 0)


def _does_not_back_off() -> bool:
    ledger = _ledger()
    ledger.plan({P0: Position(2, 10)}, 0.0, 0)
    ledger.landed()
    ledger.failed(1.0)
    return ledger.due(1.5, 0)


def _an_epoch_is_used_again() -> bool:
    epochs = Epochs()
    first = epochs.begin(P0)
    epochs.end(P0)
    return epochs.begin(P0) == first


def _express_bench(**options: Any) -> LaneBench:
    bench = LaneBench(express=True, **options)
    assert bench.dispatcher.express is not None
    bench.dispatcher.express.on = True
    return bench


def _a_chunk_of_a_halted_partition_is_put_in_line() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    bench.dispatcher.drain(assignment, below_started=False)
    bench.receive(assignment, "a0")
    return isinstance(bench.dispatcher.begin(), Chunk)


def _start(bench: LaneBench, records: int = 0) -> Chunk:
    chunk = bench.dispatcher.begin()
    assert isinstance(chunk, Chunk)
    assert chunk.iterator is not None
    for _ in range(records):
        next(chunk.iterator)
    return chunk


def _a_chunk_not_begun_is_counted() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    chunk = _start(bench)
    bench.dispatcher.end_early(chunk)
    bench.dispatcher.settle([chunk], 0.0)  # type: ignore[list-item]
    return assignment.finished_records != 0


def _a_chunk_has_records_of_a_key_with_a_fate() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    assignment.fates[b"a"] = "hold_key"
    bench.receive(assignment, "a0")
    return bench.dispatcher.begin() is not None


def _a_chunk_has_records_of_a_paused_key() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(assignment, "a0")
    return bench.dispatcher.begin() is not None


def _a_running_chunk_overlooks_a_pause() -> bool:
    bench = _express_bench()
    bench.receive(bench.assign(), "a0 b1")
    chunk = _start(bench, 1)
    bench.dispatcher.holds.pause_key(b"b")
    assert chunk.iterator is not None
    return next(chunk.iterator, None) is not None


def _a_drain_overlooks_what_a_chunk_started() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2 c3")
    bench.dispatcher.end_early(_start(bench, 1))
    _start(bench, 1)
    bench.dispatcher.drain(assignment, below_started=True)
    return assignment.drain_limit != 2


def _a_drain_leaves_a_chunk() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    bench.dispatcher.drain(assignment, below_started=True)
    return not bench.dispatcher.drained(assignment)


def _a_users_function_is_asked_twice() -> bool:
    asked = []
    bench = _express_bench(order_by=lambda message: asked.append(message.offset()) or message.key())
    bench.receive(bench.assign(), "a0 b1")
    bench.dispatcher.end_early(_start(bench, 1))
    return asked != [0, 1]


def _the_rest_of_a_chunk_has_wrong_keys() -> bool:
    bench = _express_bench(order_by=lambda message: message.key())
    bench.receive(bench.assign(), "a0 b1 c2")
    first = _start(bench, 1)
    bench.dispatcher.end_early(first)
    bench.dispatcher.settle([first], 0.0)  # type: ignore[list-item]
    lane = bench.dispatcher.end_early(_start(bench, 1))
    return lane is None or lane.head is None or lane.key != lane.head.key()


def _a_chunk_runs_a_record_without_a_key() -> bool:
    def order_by(message: Message) -> object:
        return {b"a": 1}[message.key()]

    bench = _express_bench(order_by=order_by)
    assignment = bench.assign()
    run = []
    for records in ("a0", "a1", "a2 b3"):
        bench.receive(assignment, records)
    while (one := bench.dispatcher.begin()) is not None:
        if isinstance(one, Chunk):
            assert one.iterator is not None
            run += [message.key() for message in one.iterator]
            bench.dispatcher.settle([one], 0.0)  # type: ignore[list-item]
        else:
            bench.finish(one)
    return b"b" in run


EXPRESS_MUTANTS = [
    ("the stolen record's key is forgotten", Express._busy_lane, "assignment.lanes[key] = lane", "lane"),
    ("a stolen chunk's old index counts", Chunk.take_rest, "del self.messages[", "self.messages["),
    (
        "the watermark passes a chunk's running record",
        Chunk.first_unfinished,
        "max(self.started() - 1, 0)",
        "min(self.started(), len(self.messages) - 1)",
    ),
    ("the watermark passes chunks", Assignment.watermark, "if self.chunks:", "if False:"),
    ("a settle puts no chunk in line", Dispatcher.settle, "self.express.go_on()", "pass"),
    (
        "a chunk is ended before its first record",
        Express.end_early,
        "if chunk.messages:",
        "if chunk.messages or chunk.messages.extend(rest[:1]) is None:",
        _a_chunk_not_begun_is_counted,
    ),
    (
        "what had not started goes behind what came later",
        Express.end_early,
        "assignment.chunks[0] = Chunk(assignment, rest, size - chunk.size, rest_keys)",
        "chunks = assignment.chunks; chunks.popleft(); chunks.append(Chunk(assignment, rest, 0, rest_keys))",
    ),
    ("who ends a chunk second takes it again", Express.end_early, "if chunk is not self.out:", "if False:"),
    ("records overtake the lane of their key", Express._line_up, "if assignment.lanes:", "if False:"),
    (
        "records overtake chunks that wait",
        Express.takes,
        "if assignment.chunks or self._turns:",
        "if False:",
    ),
    (
        "two chunks are out",
        Express.go_on,
        "(self.out is None if on else len(ready) < READY_LANES_MIN)",
        "True",
    ),
    ("a chunk that ended early is counted twice", Express.settle, "elif one is self.out:", "else:"),
    (
        "records behind a held lane stay in the backlog",
        Express._put_behind_lanes,
        "holds.park(assignment, 1, size)",
        "pass",
    ),
    ("a chunk runs before its partition is open", Express.needs_lanes, "not assignment.opened", "False"),
    (
        "a chunk of a halted partition runs",
        Express.needs_lanes,
        "or assignment.halted",
        "",
        _a_chunk_of_a_halted_partition_is_put_in_line,
    ),
    (
        "chunks overlook a key's fate",
        Express.needs_lanes,
        "or assignment.fates",
        "",
        _a_chunk_has_records_of_a_key_with_a_fate,
    ),
    (
        "chunks overlook a pause",
        Express.needs_lanes,
        "or self._dispatcher.holds.paused_keys",
        "",
        _a_chunk_has_records_of_a_paused_key,
    ),
    (
        "a pause lets chunks go on",
        Holds.pause_key,
        "self._dispatcher.dissolve_chunks()",
        "pass",
        _a_running_chunk_overlooks_a_pause,
    ),
    (
        "a drain lets the chunk run on",
        Cuts.drain,
        "express.halt(assignment)",
        "pass",
        _a_drain_overlooks_what_a_chunk_started,
    ),
    (
        "a drain leaves chunks",
        Cuts._cut_chunks,
        "express.cut(assignment, assignment.drain_limit)",
        "pass",
        _a_drain_leaves_a_chunk,
    ),
    (
        "the rest of a chunk gets the keys of its beginning",
        Express.end_early,
        "chunk.keys[len(chunk.messages) :]",
        "chunk.keys[: len(rest)]",
        _the_rest_of_a_chunk_has_wrong_keys,
    ),
    (
        "what goes behind lanes leaves its keys in the chunk",
        Express._put_behind_lanes,
        "chunk.keys = free_keys",
        "pass",
    ),
    (
        "a user's keys are read under the lock",
        Express._key_of,
        "if chunk.keys is not None:",
        "if False:",
        _a_users_function_is_asked_twice,
    ),
    (
        "a chunk has records whose order_by failed",
        Express.go_on,
        "assignment.chunks[0].needs_lanes or ",
        "",
        _a_chunk_runs_a_record_without_a_key,
    ),
    (
        "records whose order_by failed join a chunk",
        Express.receive,
        "or needs_lanes is not last.needs_lanes",
        "",
        _a_chunk_runs_a_record_without_a_key,
    ),
    (
        "the watermark passes chunks that were cut",
        Express.cut,
        "assignment.note_returned(returned)",
        "assignment.returned_records += len(returned)",
    ),
]


MUTANTS = [
    *(Mutant(*one) if len(one) > 4 else Mutant(*one, _an_express_seed_is_red) for one in EXPRESS_MUTANTS),  # type: ignore[misc]
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
        Verdicts.decide,
        "self._dispatcher.holds.hold(lane, decision, due_s=now_s + decision.after_s)",
        "self._dispatcher.holds.hold(lane, decision, due_s=now_s); self._dispatcher.ready.append(lane)",
    ),
    Mutant(
        "a held head is given up",
        Verdicts.decide,
        "self._dispatcher.holds.hold(lane, decision)",
        "self.give(lane, Outcome.SKIPPED)",
    ),
    Mutant(
        "an awaited head does not count as running",
        Verdicts._await,
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
        "elif lane.key in lane.assignment.fates:",
        "elif False:",
        _a_held_key_goes_on_after_a_dead_letter,
    ),
    Mutant(
        "a new record overtakes its key's fate",
        Dispatcher.spread,
        " or assignment.fates",
        "",
        _a_held_key_goes_on_after_a_dead_letter,
    ),
    Mutant(
        "followers of a parked head stay in the backlog",
        Dispatcher._spread_with_care,
        "self.holds.park(assignment, 1, size)",
        "pass",
    ),
    Mutant(
        "what is parked beyond its budget is taken anew",
        FlowControl._room,
        "- beyond_records",
        "",
    ),
    Mutant(
        "a full parked budget pauses nobody",
        FlowControl.over_parked_share,
        "load.parked_records >= records",
        "False",
        _a_full_parked_share_goes_on,
    ),
    Mutant(
        "the watermark passes running heads",
        Assignment.watermark,
        "head if (head := lane.head) is not None else",
        "head if (head := lane.head) is not None and not lane.running else",
    ),
    Mutant(
        "the watermark passes records behind an emptied lane",
        Assignment.watermark,
        "lane.rest[0] if lane.rest else None",
        "None",
        _a_record_behind_an_emptied_lane_is_passed,
    ),
    Mutant(
        "the watermark passes what was returned",
        Assignment.watermark,
        "self.received_next if self.returned_from is None else self.returned_from",
        "self.received_next",
    ),
    Mutant(
        "the watermark of shared lanes passes what was returned",
        Assignment.watermark,
        "return min(unfinished, lowest)\n    #",
        "return unfinished\n    #",
        _a_shared_watermark_passes_what_was_returned,
    ),
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
        Verdicts._complete_held,
        "if lane.assignment.halted and not lane.assignment.may_start(lane.head):",
        "if False:",
        _a_letter_is_begun_above_the_limit,
    ),
    Mutant(
        "a drain does not wait for a letter",
        Dispatcher.waits,
        "and lane not in self.verdicts.diverting",
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
        "what waits behind a lane's head is saved as finished",
        Assignment._in_lanes,
        "if lane.rest:",
        "if False:",
        _a_saving_seed_is_red,
    ),
    Mutant(
        "what runs is saved as finished",
        Assignment._in_lanes,
        "if (head := lane.head) is not None:",
        "if (head := lane.head) is not None and not lane.running:",
        _a_saving_seed_is_red,
    ),
    Mutant(
        "what was returned is saved as finished",
        Assignment.note_returned,
        "self.returned_offsets += offsets",
        "pass",
        _a_saving_seed_is_red,
    ),
    Mutant(
        "what is in chunks is saved as finished",
        Assignment.extent,
        "for chunk in self.chunks if",
        "for chunk in () if",
        _a_saving_seed_with_chunks_is_red,
    ),
    Mutant(
        "the watermark is taken before what is unfinished",
        Assignment.extent,
        "next_offset = self.watermark()",
        "next_offset = self.received_next",
        _a_saving_seed_is_red,
    ),
    Mutant(
        "what was restored is forgotten before it is received",
        Extent.finished,
        "if self.before is not None:",
        "if False:",
        _restored_ranges_are_forgotten,
    ),
    Mutant(
        "a record that replaced a finished one is skipped",
        FinishedBefore._has,
        " and not self._is_newer(message)",
        "",
        _another_log_is_skipped,
    ),
    Mutant(
        "metadata that was refused is offered again",
        CommitLedger._dirty,
        "_offered(entry, position)",
        "position",
        _refused_metadata_is_sent_again,
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
    Mutant(
        "leader epochs within a batch are lost",
        Assignment.note_received,
        "self._mark_epoch_changes(messages, now_s)",
        "pass",
    ),
    Mutant("a retry comes early", Holds.unpark_due, "due_s <= now_s", "True", _a_retry_comes_early),
    Mutant(
        "a pause is not honoured at the hand-in",
        Dispatcher.make_ready,
        "lane.key in self.holds.paused_keys",
        "False",
        _a_paused_key_runs,
    ),
    Mutant(
        "a pause is not honoured for new records",
        Dispatcher.spread,
        " or self.holds.held or self.holds.paused_keys",
        "",
        _a_new_record_of_a_paused_key_runs,
    ),
    Mutant(
        "the backlog has no limit",
        FlowControl._room,
        "limits.backlog_records_max - backlog_records",
        "limits.backlog_records_max",
    ),
    Mutant(
        "a partition is paused below its share",
        FlowControl.to_pause,
        "load.backlog_records >= records",
        "True",
        _pauses_who_is_below_its_share,
    ),
    Mutant(
        "a paused partition resumes at once",
        FlowControl.to_resume,
        "load.backlog_records <= records // 2",
        "load.backlog_records <= records",
        _resumes_above_half,
    ),
    Mutant(
        "a revoked partition stays paused",
        FlowControl.forget,
        "self.paused.discard(partition)",
        "pass",
        _stays_paused_after_revoke,
    ),
    Mutant(
        "a failed commit is not dirty any more",
        CommitLedger.plan,
        "self.in_flight = dirty",
        "self.in_flight = dirty; self.confirm(dirty, now_s)",
    ),
    Mutant(
        "the ledger takes answers of other epochs",
        CommitLedger.confirm,
        "entry is None or entry.epoch != position.epoch",
        "entry is None",
        _an_old_epochs_answer_counts,
    ),
    Mutant(
        "the ledger sends positions of other epochs",
        CommitLedger._dirty,
        "entry is None or entry.epoch != position.epoch",
        "entry is None",
        _an_old_epochs_position_is_sent,
    ),
    Mutant(
        "a gap does not move the position",
        Assignment.skip_to,
        "self.received_next = next_offset",
        "pass",
        _a_gap_holds_the_commit,
    ),
    Mutant(
        "the end of a gap gets the next record's leader epoch",
        Assignment.skip_to,
        "self.marks.add(Mark(next_offset - 1, now_s, leader_epoch))",
        "pass",
        _a_gaps_end_has_the_next_records_epoch,
    ),
    Mutant(
        "a position jumps back within an epoch",
        Assignment.skip_to,
        "assert self.received_next is None or next_offset >= self.received_next",
        "pass",
        _offsets_come_again_in_one_epoch,
    ),
    Mutant(
        "what is skipped for its age is not counted",
        Dispatcher._without_skipped,
        "self.skipped_records += done",
        "pass",
        _what_is_too_old_is_not_counted,
    ),
    Mutant(
        "a late answer lowers what is known",
        CommitLedger.confirm,
        "known is None or position.next_offset >= known.next_offset",
        "True",
        _a_late_answer_lowers,
    ),
    Mutant(
        "an unchanged position is dirty",
        CommitLedger._is_dirty,
        "position.next_offset > known.next_offset",
        "True",
        _an_unchanged_position_is_sent,
    ),
    Mutant(
        "a second commit is sent while one is in flight",
        CommitLedger.due,
        "self.in_flight is not None or ",
        "",
        _two_commits_are_in_flight,
    ),
    Mutant(
        "a failed commit is tried again at once",
        CommitLedger.due,
        " or now_s < self._not_before_s",
        "",
        _does_not_back_off,
    ),
    Mutant(
        "a commit between two looks says nothing of what is finished",
        ProgressSaver._found,
        "known = self._known.get(place, Known()).above(look.next_offset)",
        "known = Known()",
        _a_saving_seed_is_red,
    ),
    Mutant(
        "what was restored is not said before the first look",
        ProgressSaver.begin,
        "self._known[place] =",
        "_ =",
        _what_was_restored_is_not_said,
    ),
    Mutant(
        "what was restored and is gone from the log is said to be finished",
        ProgressSaver._found,
        "self._known.pop(place, None)",
        "pass",
        _what_is_gone_is_said,
    ),
    Mutant(
        "a commit between two looks is not cut at its position",
        Known.above,
        "self.finished[below:]",
        "self.finished",
        _what_lies_below_the_position_is_said,
    ),
    Mutant(
        "an epoch's number is used again",
        Epochs.begin,
        "self._last.get(partition, 0) + 1",
        "1",
        _an_epoch_is_used_again,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_is_killed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: the suite goes red when this guard is missing."""
    mutant.apply(monkeypatch)
    assert mutant.is_red(), f"nothing noticed: {mutant.name}"


def test_without_a_mutant_nothing_is_red() -> None:
    """C9: what kills a mutant is green on the core as it is."""
    seeds = {
        _a_seed_is_red,
        _an_express_seed_is_red,
        _a_saving_seed_is_red,
        _a_saving_seed_with_chunks_is_red,
    }
    scenarios = {mutant.is_red for mutant in MUTANTS} - seeds
    assert not [scenario.__name__ for scenario in scenarios if scenario()]
