"""Mutants of streams: each rule that keeps a key in one place, taken out."""

from __future__ import annotations

from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.express import Express
from ehkafka.lanes.streams import RECORDS_MAX, Streams
from tests.kit.lane_bench import LaneBench, overtake
from tests.simulation.mutants.mutant import Mutant, a_saving_seed_with_streams_is_red, a_stream_seed_is_red


def _stream_bench(records_max: int) -> LaneBench:
    bench = LaneBench(express=True)
    assert isinstance(bench.dispatcher.express, Streams)
    bench.dispatcher.express.records_max = bench.dispatcher.express._first_max = records_max
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


def _a_key_goes_on_that_comes_again_in_its_stream() -> bool:
    bench = _stream_bench(3)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3 d4 e5")
    _start(bench, 2)
    bench.receive(assignment, "a6")
    _start(bench, 1)
    bench.receive(assignment, "a7")
    return bench.dispatcher.begin() is not None


def _a_streams_key_gets_a_ready_lane() -> bool:
    bench = _stream_bench(1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    _start(bench, 1)
    assert bench.dispatcher.express is not None
    bench.dispatcher.express.records_max = 0
    bench.receive(assignment, "a2")
    return [lane.key for lane in bench.dispatcher.ready] != [b"b"]


def _a_chunk_waits_for_ever_for_the_streams_end() -> bool:
    bench = _stream_bench(1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = _start(bench, 1)
    assert bench.dispatcher.express is not None
    bench.dispatcher.express.on = True
    bench.receive(assignment, "c2")
    bench.dispatcher.settle([stream], 0.0)  # type: ignore[list-item]
    return bench.dispatcher.begin() is None


def _a_stream_has_a_paused_key() -> bool:
    bench = _stream_bench(1)
    assignment = bench.assign()
    # As if that was asked before the pause.
    bench.dispatcher.takes_unread = lambda _: True  # type: ignore[method-assign]
    bench.dispatcher.holds.pause_key(b"a")
    bench.receive(assignment, "a0 a1")
    return bench.dispatcher.begin() is not None


def _what_follows_a_held_record_is_not_parked() -> bool:
    bench = _stream_bench(1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    lane = bench.dispatcher.end_early(_start(bench, 1))
    assert lane is not None
    lane.decision = HoldHead("poison")
    bench.settle(lane)
    bench.dispatcher.settle([_start(bench, 1)], 0.0)  # type: ignore[list-item]
    bench.receive(assignment, "a2 c3")
    return assignment.parked_records != 2


def _running_stream() -> tuple[LaneBench, Assignment, Chunk]:
    """Return a stream whose one record runs, and nothing that waits."""
    bench = _stream_bench(1)
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = _start(bench, 1)
    bench.settle()
    _start(bench, 1)
    return bench, assignment, stream


def _a_stream_has_more_keys_than_records() -> bool:
    bench, assignment, stream = _running_stream()
    assert stream.iterator is not None
    next(stream.iterator, None)
    bench.receive(assignment, "a2")
    return stream.keys != [b"a"]


def _bytes_stay_in_the_backlog() -> bool:
    bench, assignment, stream = _running_stream()
    before = bench.dispatcher.backlog_bytes
    bench.receive(assignment, "a2")
    assert stream.iterator is not None
    list(stream.iterator)
    bench.dispatcher.settle([stream], 0.0)  # type: ignore[list-item]
    return bench.dispatcher.backlog_bytes != before // 2


def _a_stream_has_no_end() -> bool:
    bench, assignment, stream = _running_stream()
    bench.receive(assignment, " ".join(f"a{offset}" for offset in range(2, 2 * RECORDS_MAX)))
    return len(stream) > RECORDS_MAX


def _what_its_worker_ran_is_given_to_another() -> bool:
    bench, assignment, stream = _running_stream()
    overtake(stream)
    bench.receive(assignment, "a2")
    return len(stream) != 2


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
        _a_key_goes_on_that_comes_again_in_its_stream,
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
        _a_streams_key_gets_a_ready_lane,
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
        _a_chunk_waits_for_ever_for_the_streams_end,
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
    Mutant(
        "what a stream has left goes behind the lane of its key",
        Streams._put_first,
        "lane.put_first(message, size)",
        "lane.append(message)",
        a_stream_seed_is_red,
    ),
    Mutant(
        "the running record of a stream goes behind the lane of its key",
        Express._busy_lanes,
        "lane.put_first(message, size)",
        "lane.append(message)",
        a_stream_seed_is_red,
    ),
    Mutant(
        "the running record of a stream is counted as it is stolen",
        Streams.end_early,
        "started - 1,",
        "started,",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a stream that has ended is not counted",
        Streams.settle,
        "self._count_finished(one.assignment, len(one.messages), one.size)",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a lane of a stream's key is ready",
        Dispatcher._spread_with_care,
        "(owner := assignment.owners.get(key)) is None or owner.has_finished(key)",
        "(owner := assignment.owners.get(key)) is None or True",
        a_stream_seed_is_red,
    ),
    Mutant(
        "streams overlook pauses and letters",
        Streams.go_on,
        "self.needs_lanes(assignment) or ",
        "",
        _a_stream_has_a_paused_key,
    ),
    Mutant(
        "records that a stream leaves to a held lane stay in the backlog",
        Streams._put_in_line,
        "holds.park(assignment, 1, size)",
        "pass",
        _what_follows_a_held_record_is_not_parked,
    ),
    Mutant(
        "an assignment has two turns",
        Streams._end_stream,
        " and assignment not in self._turns",
        "",
        a_stream_seed_is_red,
    ),
    Mutant(
        "what waits keeps the keys of what a stream took",
        Chunk.take_first,
        "del keys[:records]",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "what waits keeps the bytes of what a stream took",
        Chunk.take_first,
        "self.size -= first.size",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a stream that is stolen keeps its keys",
        Streams.end_early,
        "self._end_stream(chunk)",
        "pass",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a record goes to a stream whose worker has seen the end",
        Chunk.add,
        "is_at_end(listed)",
        "False",
        a_stream_seed_is_red,
    ),
    Mutant(
        "a record that a stream could not take leaves its key there",
        Chunk.add,
        "keys.pop()",
        "pass",
        _a_stream_has_more_keys_than_records,
    ),
    Mutant(
        "what a stream takes later has no size",
        Chunk.add,
        "self.size += size",
        "pass",
        _bytes_stay_in_the_backlog,
    ),
    Mutant(
        "a hot key keeps its stream for ever",
        Streams._put_in_line,
        "len(owner) >= grown_max or ",
        "",
        _a_stream_has_no_end,
    ),
    Mutant(
        "a record that its worker ran at once is given to another",
        Chunk.add,
        " and taken_of(counted) <= place",
        "",
        _what_its_worker_ran_is_given_to_another,
    ),
]
