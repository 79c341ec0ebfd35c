"""Mutants of streams: each rule that keeps a key in one place, taken out."""

from __future__ import annotations

from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.streams import Streams
from tests.kit.lane_bench import LaneBench
from tests.simulation.mutants.mutant import Mutant, a_saving_seed_with_streams_is_red, a_stream_seed_is_red


def _stream_bench(records_max: int) -> LaneBench:
    bench = LaneBench(express=True)
    assert bench.dispatcher.express is not None
    bench.dispatcher.express.records_max = records_max
    return bench


def _start(bench: LaneBench, records: int) -> Chunk:
    stream = bench.dispatcher.begin()
    assert isinstance(stream, Chunk)
    assert stream.iterator is not None
    for _ in range(records):
        next(stream.iterator)
    return stream


def _a_drain_believes_that_something_started() -> bool:
    bench = _stream_bench(1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 a3")
    bench.dispatcher.drain(assignment, below_started=True)
    return assignment.drain_limit != -1


def _a_key_that_a_later_stream_has_is_let_go() -> bool:
    bench = _stream_bench(2)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    first = _start(bench, 2)
    bench.settle()
    _start(bench, 1)
    assert first.iterator is not None
    next(first.iterator, None)
    bench.dispatcher.settle([first], 0.0)  # type: ignore[list-item]
    bench.receive(assignment, "a4")
    return bench.dispatcher.begin() is not None


MUTANTS = [
    Mutant(
        "two streams have a key",
        Streams._put_in_line,
        "is stream or owner.has_finished(key)",
        "is not None",
        a_stream_seed_is_red,
    ),
    Mutant(
        "the running record of a stream counts as finished",
        Chunk.has_finished,
        "self.finished()",
        "self.started()",
        a_stream_seed_is_red,
    ),
    Mutant(
        "the first record of a key stands for its last",
        Chunk.has_finished,
        "len(keys) - 1 - keys[::-1].index(key)",
        "keys.index(key)",
        a_stream_seed_is_red,
    ),
    Mutant(
        "records pass the lane of their key",
        Streams._put_in_line,
        "(lane := lanes.get(key)) is not None",
        "(lane := None) is not None",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a lane does not wait for its stream",
        Streams._put_in_line,
        'cast("list[Lane]", owner.behind).append(lane)',
        "self._dispatcher.ready.append(lane)",
        a_stream_seed_is_red,
    ),
    Mutant(
        "lanes are made of keys that a stream has",
        Dispatcher.spread,
        "or assignment.owners",
        "or False",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a chunk goes out beside streams",
        Streams.go_on,
        "if assignment.streams:",
        "if False:",
        a_stream_seed_is_red,
    ),
    Mutant(
        "who waited for the last stream's end is forgotten",
        Streams._end_stream,
        "if assignment.chunks and not assignment.streams and assignment not in self._turns:",
        "if False:",
        a_stream_seed_is_red,
    ),
    Mutant(
        "what a stream has left goes behind what came later",
        Streams.end_early,
        "zip(reversed(keys[started:]), reversed(rest), strict=True)",
        "zip(keys[started:], rest, strict=True)",
        a_stream_seed_is_red,
    ),
    Mutant(
        "the lane of the running record is readied",
        Streams._ready_behind,
        "if lane is stream.lane:",
        "if False:",
        a_stream_seed_is_red,
    ),
    Mutant(
        "keys stay with a stream that has ended",
        Streams._end_stream,
        "del owners[key]",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "the end of a stream lets another's key go",
        Streams._end_stream,
        "if owners.get(key) is stream:",
        "if key in owners:",
        _a_key_that_a_later_stream_has_is_let_go,
    ),
    Mutant(
        "the lanes behind a stream are forgotten",
        Streams.settle,
        "self._ready_behind(one)",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a drain lets streams run on",
        Streams.halt,
        "self.end_early(stream)",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a drain returns what it has yet to set a limit for",
        Streams._ready_behind,
        "if stream.assignment.halted:",
        "if False:",
        _a_drain_believes_that_something_started,
    ),
    Mutant(
        "the watermark passes streams",
        Assignment.watermark,
        "for stream in self.streams:",
        "for stream in ():",
        a_stream_seed_is_red,
    ),
    Mutant(
        "what is saved overlooks streams",
        Assignment.extent,
        "for stream in self.streams:",
        "for stream in ():",
        a_saving_seed_with_streams_is_red,
    ),
]
