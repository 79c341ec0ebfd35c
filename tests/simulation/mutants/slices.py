"""Guards of batches that take chunks: what keeps them in order with lanes, failures, limits and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.express import Express
from ehkafka.lanes.order import KeyFailure
from ehkafka.lanes.slices import Slices
from ehkafka.records import Outcome
from ehkafka.workers.batches.due import LATE_S, Due
from ehkafka.workers.batches.plan import BatchPlan
from ehkafka.workers.batches.share import Share
from tests.kit.simulated.message import SimulatedMessage
from tests.simulation.mutants.mutant import Mutant, a_batch_seed_is_red
from tests.workers.batches.plan_bench import PlanBench, offsets

if TYPE_CHECKING:
    from ehkafka.workers.batches.share import Part


def _bench(**options: Any) -> PlanBench:
    return PlanBench(slices=True, **{"records_min": 1, **options})


def _chunks_of(parts: list[Part]) -> list[list[int]]:
    return [offsets([part]) for part in parts if isinstance(part, Chunk)]


def _a_chunk_has_a_key_after_its_letter() -> bool:
    bench = _bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    assignment.after_letter[b"a"] = "hold_key"
    return offsets(bench.take() or bench.take()) != [1]


def _a_chunk_has_a_record_without_a_key(*batches: str) -> bool:
    def order_by(message: Any) -> object:
        return {b"a": 1}[message.key()]

    bench = _bench(order_by=order_by)
    assignment = bench.assign()
    for records in batches:
        bench.receive(assignment, records)
    seen = []
    while parts := bench.take():
        seen += [
            message.key()
            for part in parts
            if not (isinstance(part, Share) and isinstance(part.lane.key, KeyFailure))
            for message in part.messages
        ]
        bench.finish_all(parts)
    return b"b" in seen


def _first_has_no_key() -> bool:
    return _a_chunk_has_a_record_without_a_key("b0")


def _a_later_one_has_no_key() -> bool:
    return _a_chunk_has_a_record_without_a_key("a0", "b1")


def _what_waits_behind_a_long_batch_waits_for_its_end() -> bool:
    bench = _bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.take()
    bench.receive(assignment, "a2 c3")
    bench.now_s = LATE_S
    return bench.wait_s() != 0.0 or offsets(bench.take()) != [3]


def _a_quick_batch_gets_lanes() -> bool:
    bench = _bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.take()
    bench.receive(assignment, "a2 c3")
    bench.now_s = LATE_S / 2
    return bench.take() != []


def _a_batch_of_too_few_goes() -> bool:
    bench = _bench(records_max=4, records_min=3)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.end(bench.take(), lambda message: None if message.key() == b"a" else Outcome.FINISHED)
    held = bench.dispatcher.ready.popleft()  # as if a batch had it
    held.running = 1
    bench.receive(assignment, "a3 a4 d5")
    return bench.take() != [] or bench.wait_s() != 1.0


def _what_was_put_back_blocks() -> bool:
    bench = _bench(records_max=4, records_min=3)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2")
    bench.end(bench.take(), lambda message: None if message.key() == b"a" else Outcome.FINISHED)
    bench.dispatcher.ready.popleft().running = 1  # as if a batch had it
    bench.receive(assignment, "a3 a4 d5")
    bench.take()
    bench.receive(assignment, "e6")
    return bool(bench.slices.blocked)


def _the_culprit_is_not_alone() -> bool:
    bench = _bench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    shares = bench.plan.separate(bench.take())
    bench.plan.narrow(shares, 2)
    bench.end(list(shares), lambda _: None)
    bench.receive(assignment, "c2 d3")
    return offsets(bench.take()) != [0]


def _a_batch_that_raised_waits_for_what_came_before() -> bool:
    bench = _bench()
    late, other = bench.assign(0), bench.assign(1)
    bench.now_s = 1.0
    bench.receive(late, "a0 b1")
    shares = bench.plan.separate(bench.take())
    bench.plan.narrow(shares, 1)
    bench.end(list(shares), lambda _: None)
    bench.now_s = 0.0
    bench.receive(other, "c2")
    bench.now_s = 2.0
    return _chunks_of(bench.take()) != []


def _chunks_wait_for_lanes_that_came_later() -> bool:
    bench = _bench(records_max=2)
    old, new = bench.assign(0), bench.assign(1)
    bench.receive(old, "a0 b1")
    bench.now_s = 1.0
    bench.receive(new, "c2 d3")
    bench.slices.dissolve(new)
    return offsets(bench.take()) != [0, 1]


def _a_batch_has_more_bytes_than_it_may() -> bool:
    bench = _bench(bytes_max=2)
    bench.receive(bench.assign(), "a0 b1 c2", value=b"x")
    return offsets(bench.take()) != [0, 1]


def _something_stays_in_the_book() -> bool:
    bench = _bench(records_max=2)
    bench.receive(bench.assign(), "a0 b1 c2 d3")
    while parts := bench.take():
        bench.finish_all(parts)
    return bool(bench.slices.blocked or bench.plan.due.taken_s)


def _a_batch_that_failed_is_taken_from_the_book() -> bool:
    bench = _bench()
    bench.receive(bench.assign(), "a0 b1")
    for share in (shares := bench.plan.separate(bench.take())):
        share.decision = RetryHead(1.0, "later")
    bench.plan.pass_over(shares)
    bench.plan.hand_in(shares, 0.0)
    return bool(bench.plan.due.taken_s)


def _records_stand_where_they_stood_by_key() -> bool:
    bench = _bench()
    bench.receive(bench.assign(), "a0 b1 a2")
    shares = bench.plan.separate(bench.take())
    return [list(share.places) for share in shares] != [[0, 2], [1]]


def _what_a_batch_has_no_room_for_is_passed() -> bool:
    room = 2 * len(SimulatedMessage("t", 0, 0, b"a"))
    bench = _bench(records_max=3, bytes_max=room)
    bench.slices.chunk_records_max = 3
    assignment = bench.assign()
    for records in ("a0 b1 c2", "c3"):
        bench.receive(assignment, records)
    return bench.run_all() != [[0, 1], [2, 3]]


def _a_slow_handlers_records_wait_in_chunks() -> bool:
    bench = _bench()
    bench.receive(bench.assign(), "a0 b1")
    bench.slices.on = False
    return _chunks_of(bench.take()) != []


MUTANTS = [
    Mutant(
        "two batches have chunks of one partition",
        Express.receive,
        "if not chunks:",
        "if True:",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch's chunk takes later records in",
        Express.receive,
        "or last.is_out",
        "or last is self.out",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch's records overtake the lane of their key",
        Slices._first,
        "if assignment.lanes:",
        "if False:",
        a_batch_seed_is_red,
    ),
    Mutant(
        "the watermark passes a batch that runs",
        Chunk.finished,
        "else 0",
        "else max(self.running - 1, 0)",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch that gets lanes runs one record of each key",
        Slices._busy_lanes,
        "lane.running += 1",
        "lane.running = 1",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch that got lanes has finished one record of each key",
        Express.settle,
        "for _ in range(lane.running):",
        "for _ in range(1):",
        a_batch_seed_is_red,
    ),
    Mutant(
        "what a batch has started is taken away",
        Chunk.take_rest,
        "return []",
        "return [self.messages.pop()]",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch's keys are forgotten",
        Slices._busy_lanes,
        "lanes.update(made)",
        "pass",
        a_batch_seed_is_red,
    ),
    Mutant(
        "who takes a part of a chunk loses the rest's place",
        Slices._within,
        "chunks.appendleft(chunk)",
        "chunks.append(chunk)",
        _what_a_batch_has_no_room_for_is_passed,
    ),
    Mutant(
        "batches overlook that a key follows a letter",
        Slices.take,
        " or self.needs_lanes(assignment)",
        "",
        _a_chunk_has_a_key_after_its_letter,
    ),
    Mutant(
        "a batch has records whose order_by failed",
        Slices.take,
        "or any(chunk.needs_lanes for chunk in chunks) ",
        "",
        _first_has_no_key,
    ),
    Mutant(
        "records whose order_by failed join a batch's chunk",
        Slices.take,
        "any(chunk.needs_lanes for chunk in chunks)",
        "chunks[0].needs_lanes",
        _a_later_one_has_no_key,
    ),
    Mutant(
        "slow handlers get chunks",
        Slices.take,
        "not self.on or ",
        "",
        _a_slow_handlers_records_wait_in_chunks,
    ),
    Mutant(
        "a long batch gets no lanes",
        BatchPlan.take,
        "self._dispatcher.end_early(chunk)",
        "pass",
        _what_waits_behind_a_long_batch_waits_for_its_end,
    ),
    Mutant(
        "nobody knows what waits behind a batch",
        Slices.receive,
        "self._note_blocked(assignment)",
        "pass",
        _what_waits_behind_a_long_batch_waits_for_its_end,
    ),
    Mutant(
        "every batch gets lanes",
        Due.late,
        "if self._late_s(assignment) <= now_s",
        "",
        _a_quick_batch_gets_lanes,
    ),
    Mutant(
        "a batch of too few goes early",
        BatchPlan.take,
        "if filling.went_behind_lanes and not must_go and not self._is_full(filling):",
        "if False:",
        _a_batch_of_too_few_goes,
    ),
    Mutant(
        "a batch that is put back is out",
        Slices.give_back,
        "self._let_go(chunk)",
        "pass",
        _what_was_put_back_blocks,
    ),
    Mutant(
        "halves of a batch that raised are filled with chunks",
        BatchPlan._begin_lanes,
        "filling.has_chunks = False",
        "pass",
        _the_culprit_is_not_alone,
    ),
    Mutant(
        "a batch that raised waits behind chunks",
        Due.is_chunk_first,
        "not is_narrowed and ",
        "",
        _a_batch_that_raised_waits_for_what_came_before,
    ),
    Mutant(
        "lanes go before older chunks",
        BatchPlan.take,
        "if due.is_chunk_first(now_s):",
        "if False:",
        _chunks_wait_for_lanes_that_came_later,
    ),
    Mutant(
        "chunks overlook a batch's bytes",
        Slices.take,
        'if bytes_max != float("inf"):',
        "if False:",
        _a_batch_has_more_bytes_than_it_may,
    ),
    Mutant(
        "a batch that has ended blocks",
        Slices._let_go,
        "self.blocked.pop(chunk.assignment, None)",
        "pass",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch that has ended is in the book",
        BatchPlan.hand_in,
        "self.due.taken_s.pop(share, None)",
        "pass",
        _something_stays_in_the_book,
    ),
    Mutant(
        "a batch that was separated is in the book",
        BatchPlan.separate,
        "self.due.taken_s.pop(part, None)",
        "pass",
        _a_batch_that_failed_is_taken_from_the_book,
    ),
    Mutant(
        "results are given to other records",
        BatchPlan.separate,
        "[places[id(message)] for message in begun]",
        "sorted(places.values())[: len(begun)]",
        _records_stand_where_they_stood_by_key,
    ),
    Mutant(
        "what waits behind a batch loses its turn",
        Express._drop_first,
        "if assignment.chunks:",
        "if False:",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch that is given lanes keeps its partition",
        Express.end_early,
        "self._let_go(chunk)",
        "pass",
        a_batch_seed_is_red,
    ),
    Mutant(
        "a batch starts unread records of a partition that is halted",
        Slices.take,
        " or self.needs_lanes(assignment)",
        "",
        a_batch_seed_is_red,
    ),
]
