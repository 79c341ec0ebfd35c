"""Guards of an assignment's position: what its watermark passes, its gaps and its marks."""

from __future__ import annotations

from ehkafka.lanes.assignment import Assignment
from tests.kit.lane_bench import LaneBench
from tests.simulation.mutants.mutant import Mutant


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


def _offsets_come_again_in_one_epoch() -> bool:
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a3")
    try:
        assignment.skip_to(0, 0.0)
    except AssertionError:
        return False
    return True


MUTANTS = [
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
        "leader epochs within a batch are lost",
        Assignment.note_received,
        "self._mark_epoch_changes(messages, now_s)",
        "pass",
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
]
