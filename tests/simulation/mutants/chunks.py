"""Guards of chunks: what keeps them in order with lanes, pauses, drains and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.cuts import Cuts
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.express import Express
from ehkafka.lanes.holds import Holds
from ehkafka.lanes.streams import Streams
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from ehkafka.records import Message


from tests.simulation.mutants.mutant import Mutant, an_express_seed_is_red


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


def _a_chunk_has_records_of_a_key_after_its_letter() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    assignment.after_letter[b"a"] = "hold_key"
    bench.receive(assignment, "a0")
    return bench.dispatcher.begin() is not None


def _a_chunk_has_records_of_a_paused_key() -> bool:
    bench = _express_bench()
    assignment = bench.assign()
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(assignment, "a0")
    return bench.dispatcher.begin() is not None


def _two_chunks_are_in_line() -> bool:
    bench = _express_bench()
    for partition in range(2):
        bench.receive(bench.assign(partition), "a0 b1")
    return len(bench.dispatcher.ready) != 1


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


MUTANTS = [
    Mutant(
        "the stolen record's key is forgotten",
        Express._busy_lanes,
        "assignment.lanes[key] = lane",
        "lane",
        an_express_seed_is_red,
    ),
    Mutant(
        "a stolen chunk's old index counts",
        Chunk.take_rest,
        "del self.messages[",
        "self.messages[",
        an_express_seed_is_red,
    ),
    Mutant(
        "the watermark passes a chunk's running record",
        Chunk.finished,
        "max(self.started() - 1, 0)",
        "min(self.started(), len(self.messages) - 1)",
        an_express_seed_is_red,
    ),
    Mutant(
        "the watermark passes chunks",
        Assignment.watermark,
        "if self.chunks:",
        "if False:",
        an_express_seed_is_red,
    ),
    Mutant(
        "a settle puts no chunk in line",
        Dispatcher.settle,
        "self.express.go_on()",
        "pass",
        an_express_seed_is_red,
    ),
    Mutant(
        "a chunk is ended before its first record",
        Express.end_early,
        "if chunk.messages:",
        "if chunk.messages or chunk.messages.extend(rest[:1]) is None:",
        _a_chunk_not_begun_is_counted,
    ),
    Mutant(
        "what had not started goes behind what came later",
        Express.end_early,
        "assignment.chunks[0] = Chunk(assignment, rest, size - chunk.size, rest_keys)",
        "chunks = assignment.chunks; chunks.popleft(); chunks.append(Chunk(assignment, rest, 0, rest_keys))",
        an_express_seed_is_red,
    ),
    Mutant(
        "who ends a chunk second takes it again",
        Express.end_early,
        "if not chunk.is_out:",
        "if False:",
        an_express_seed_is_red,
    ),
    Mutant(
        "records overtake the lane of their key",
        Express._line_up,
        "if assignment.lanes:",
        "if False:",
        an_express_seed_is_red,
    ),
    Mutant(
        "records overtake chunks that wait",
        Express.takes,
        "if assignment.chunks or self._turns:",
        "if False:",
        an_express_seed_is_red,
    ),
    Mutant(
        "two chunks are out",
        Streams._has_room,
        "self.out is None",
        "True",
        _two_chunks_are_in_line,
    ),
    Mutant(
        "a chunk that ended early is counted twice",
        Express.settle,
        "elif one.is_out:",
        "else:",
        an_express_seed_is_red,
    ),
    Mutant(
        "records behind a held lane stay in the backlog",
        Express._put_behind_lanes,
        "holds.park(assignment, 1, size)",
        "pass",
        an_express_seed_is_red,
    ),
    Mutant(
        "a chunk runs before its partition is open",
        Express.needs_lanes,
        "not assignment.opened",
        "False",
        an_express_seed_is_red,
    ),
    Mutant(
        "a chunk of a halted partition runs",
        Express.needs_lanes,
        "or assignment.halted",
        "",
        _a_chunk_of_a_halted_partition_is_put_in_line,
    ),
    Mutant(
        "chunks overlook that a key follows a letter",
        Express.needs_lanes,
        "or assignment.after_letter",
        "",
        _a_chunk_has_records_of_a_key_after_its_letter,
    ),
    Mutant(
        "chunks overlook a pause",
        Express.needs_lanes,
        "or self._dispatcher.holds.paused_keys",
        "",
        _a_chunk_has_records_of_a_paused_key,
    ),
    Mutant(
        "a pause lets chunks go on",
        Holds.pause_key,
        "self._dispatcher.dissolve_chunks()",
        "pass",
        _a_running_chunk_overlooks_a_pause,
    ),
    Mutant(
        "a drain lets the chunk run on",
        Cuts.drain,
        "express.halt(assignment)",
        "pass",
        _a_drain_overlooks_what_a_chunk_started,
    ),
    Mutant(
        "a drain leaves chunks",
        Cuts._cut_chunks,
        "express.cut(assignment, assignment.drain_limit)",
        "pass",
        _a_drain_leaves_a_chunk,
    ),
    Mutant(
        "the rest of a chunk gets the keys of its beginning",
        Express.end_early,
        "chunk.keys[len(chunk.messages) :]",
        "chunk.keys[: len(rest)]",
        _the_rest_of_a_chunk_has_wrong_keys,
    ),
    Mutant(
        "what goes behind lanes leaves its keys in the chunk",
        Express._put_behind_lanes,
        "chunk.keys = free_keys",
        "pass",
        an_express_seed_is_red,
    ),
    Mutant(
        "a user's keys are read under the lock",
        Express._key_of,
        "if chunk.keys is not None:",
        "if False:",
        _a_users_function_is_asked_twice,
    ),
    Mutant(
        "a chunk has records whose order_by failed",
        Streams.go_on,
        " or assignment.chunks[0].needs_lanes",
        "",
        _a_chunk_runs_a_record_without_a_key,
    ),
    Mutant(
        "records whose order_by failed join a chunk",
        Express.receive,
        "or needs_lanes is not last.needs_lanes",
        "",
        _a_chunk_runs_a_record_without_a_key,
    ),
    Mutant(
        "the watermark passes chunks that were cut",
        Express.cut,
        "assignment.note_returned(returned)",
        "assignment.returned_records += len(returned)",
        an_express_seed_is_red,
    ),
]
