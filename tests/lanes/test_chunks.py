"""Chunks: records run without a look at their keys, and the same promises as lanes keep."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from ehkafka.lanes.chunk import Chunk, has_exact_iterators, left_in
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.lanes.express import READY_LANES_MIN
from ehkafka.lanes.order import KeyFailure
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane


@pytest.fixture
def bench() -> LaneBench:
    """A bench whose dispatcher makes chunks."""
    made = LaneBench(express=True)
    assert made.dispatcher.express is not None
    made.dispatcher.express.on = True
    return made


def begin(bench: LaneBench) -> Chunk:
    """Begin a chunk."""
    chunk = bench.dispatcher.begin()
    assert isinstance(chunk, Chunk)
    return chunk


def run(chunk: Chunk, records: int = 1_000) -> list[str]:
    """Start so many records of a chunk; return what was started."""
    assert chunk.iterator is not None
    started = [message for _, message in zip(range(records), chunk.iterator, strict=False)]
    return [f"{message.key().decode()}{message.offset()}" for message in started]  # type: ignore[union-attr]


def hand_in(bench: LaneBench, chunk: Chunk) -> None:
    """Hand a chunk in."""
    bench.settle(cast("Lane", chunk))


def run_all(bench: LaneBench) -> list[str]:
    """Run all that may run; return what was started."""
    started: list[str] = []
    while (one := bench.dispatcher.begin()) is not None:
        if isinstance(one, Chunk):
            started += run(one)
            hand_in(bench, one)
        else:
            seen = len(bench.started)
            bench.finish(one)
            started += bench.started[seen:]
    return started


def waiting(assignment: Assignment) -> list[list[int]]:
    """Return the offsets of each chunk of an assignment."""
    return [[message.offset() for message in chunk.messages] for chunk in assignment.chunks]


def test_this_interpreter_tells_exactly_how_far_a_list_iterator_is() -> None:
    """Commits rest on it: never an estimate, and emptied in one step."""
    assert has_exact_iterators()
    items = list(range(1_000))
    iterator = iter(items)
    for number in range(1_000):
        assert left_in(iterator) == 1_000 - number
        assert next(iterator) == number
    assert left_in(iterator) == 0
    assert list(iterator) == []


def test_an_interpreter_that_cannot_tell_gets_no_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere plain lanes."""
    monkeypatch.setattr("ehkafka.lanes.chunk.sys._is_gil_enabled", lambda: False, raising=False)
    assert not has_exact_iterators()
    monkeypatch.undo()
    monkeypatch.setattr("ehkafka.lanes.chunk.taken_of", lambda _counted: pickle.dumps(threading.Lock()))
    assert not has_exact_iterators()


def test_a_chunk_runs_in_order_and_is_counted_once(bench: LaneBench) -> None:
    """Received, run, handed in; nothing is left."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    assert bench.dispatcher.backlog_records == 3
    assert run_all(bench) == ["a0", "b1", "a2"]
    assert assignment.finished_records == bench.dispatcher.finished_records == 3
    assert assignment.watermark() == 3
    assert bench.is_empty()


def test_only_one_chunk_is_out_and_partitions_take_turns(bench: LaneBench) -> None:
    """A partition with much to do does not keep the others waiting for all of it."""
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 a1")
    bench.receive(one, "a2")
    bench.receive(two, "b0")
    chunk = begin(bench)
    assert bench.dispatcher.begin() is None
    assert run(chunk) == ["a0", "a1"]
    bench.receive(one, "a3")
    hand_in(bench, chunk)
    assert run_all(bench) == ["b0", "a2", "a3"]


def test_waiting_records_of_a_partition_become_one_chunk(bench: LaneBench) -> None:
    """Small batches are no small chunks."""
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    for offset in range(1, 6):
        bench.receive(assignment, f"a{offset}")
    assert waiting(assignment) == [[0], [1, 2, 3, 4, 5]]


def test_the_watermark_is_the_record_that_runs(bench: LaneBench) -> None:
    """What a chunk has started last is not passed, what it ran before is."""
    assignment = bench.assign()
    bench.receive(assignment, "a5 b6 c9")
    assert assignment.watermark() == 5
    chunk = begin(bench)
    assert assignment.watermark() == 5
    run(chunk, 1)
    assert assignment.watermark() == 5
    run(chunk, 1)
    assert assignment.watermark() == 6
    run(chunk)
    assert assignment.watermark() == 9
    hand_in(bench, chunk)
    assert assignment.watermark() == 10


def test_a_record_that_takes_long_becomes_a_lane_and_the_rest_goes_on(bench: LaneBench) -> None:
    """Its key waits, the others do not."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3")
    chunk = begin(bench)
    run(chunk, 2)
    lane = bench.dispatcher.end_early(chunk)
    assert lane is not None
    assert (lane.key, lane.running) == (b"b", True)
    assert run(chunk) == []
    assert assignment.finished_records == 1
    bench.receive(assignment, "b4 d5")
    assert run_all(bench) == ["a2", "c3", "d5"]
    assert assignment.watermark() == 1
    hand_in(bench, chunk)
    assert run_all(bench) == ["b4"]
    assert assignment.watermark() == 6
    assert bench.is_empty()


def test_what_had_not_started_comes_before_what_came_later(bench: LaneBench) -> None:
    """The rest of a chunk is the next one of its partition."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    bench.receive(assignment, "b2")
    chunk = begin(bench)
    run(chunk, 1)
    bench.dispatcher.end_early(chunk)
    assert waiting(assignment) == [[1], [2]]
    assert run_all(bench) == ["b1", "b2"]


def test_a_chunk_that_has_not_begun_is_ended_without_a_lane(bench: LaneBench) -> None:
    """The records are all the rest; its worker finds nothing and hands it in."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    chunk = begin(bench)
    assert bench.dispatcher.end_early(chunk) is None
    assert not assignment.lanes
    assert run(chunk) == []
    hand_in(bench, chunk)
    assert run_all(bench) == ["a0", "b1"]
    assert bench.is_empty()


def test_a_chunks_last_record_may_be_taken_after_it_has_ended(bench: LaneBench) -> None:
    """Who ends the chunk and who hands it in meet at its last record: it is counted once."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    chunk = begin(bench)
    run(chunk)
    lane = bench.dispatcher.end_early(chunk)
    assert lane is not None
    assert lane.key == b"b"
    assert assignment.watermark() == 1
    hand_in(bench, chunk)
    assert assignment.finished_records == 2
    assert bench.is_empty()


def test_a_failure_ends_the_chunk_and_the_key_waits(bench: LaneBench) -> None:
    """The failed record's followers wait, others do not, order is kept."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 b3 d4")
    chunk = begin(bench)
    run(chunk, 2)
    lane = bench.dispatcher.end_early(chunk)
    assert lane is not None
    lane.decision = RetryHead(5.0, "later")
    bench.settle(lane)
    assert run_all(bench) == ["c2", "d4"]
    assert (bench.dispatcher.backlog_records, bench.dispatcher.parked_records) == (0, 2)
    assert assignment.watermark() == 1
    bench.dispatcher.holds.unpark_due(5.0)
    assert run_all(bench) == ["b1", "b3"]
    assert assignment.watermark() == 5
    assert bench.is_empty()


def test_lanes_take_over_where_keys_count(bench: LaneBench) -> None:
    """A paused key, one after a letter, an unopened partition: every record has a lane."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    chunk = begin(bench)
    bench.receive(assignment, "b2 c3")
    run(chunk, 1)
    bench.dispatcher.holds.pause_key(b"b")
    assert not assignment.chunks
    hand_in(bench, chunk)
    assert run_all(bench) == ["c3"]
    bench.dispatcher.holds.resume_key(b"b")
    assert run_all(bench) == ["b1", "b2"]
    late = bench.assign(1, opened=False)
    bench.receive(late, "x0")
    assert run_all(bench) == []
    bench.dispatcher.open(late)
    assert run_all(bench) == ["x0"]
    assert bench.is_empty()


def test_a_dead_letter_holds_its_key_for_chunks_too(bench: LaneBench) -> None:
    """After `hold_key` the next records of the key wait."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2")
    chunk = begin(bench)
    run(chunk, 1)
    lane = bench.dispatcher.end_early(chunk)
    assert lane is not None
    lane.decision = AwaitHead("letter", lambda _: None, after="hold_key")
    bench.settle(lane)
    ticket = bench.dispatcher.decisions.outbox.pop()
    from ehkafka.records import Outcome  # noqa: PLC0415

    bench.dispatcher.decisions.complete(ticket, Outcome.DEAD_LETTERED, 0.0)
    bench.receive(assignment, "a3 c4")
    assert run_all(bench) == ["b1", "c4"]
    assert assignment.watermark() == 2


def test_a_slow_handler_gets_lanes_a_part_at_a_time(bench: LaneBench) -> None:
    """Turned off, what waits is spread as far as workers need it, and no partition is left out."""
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0")
    records = " ".join(f"{chr(97 + n % 26)}{n}" for n in range(1, 5))
    bench.receive(one, records)
    bench.receive(two, "z0")
    express = bench.dispatcher.express
    assert express is not None
    express.on = False
    chunk = begin(bench)
    run(chunk)
    hand_in(bench, chunk)
    assert not one.chunks
    assert sorted(lane.key for lane in bench.dispatcher.ready) == [b"b", b"c", b"d", b"e", b"z"]  # type: ignore[type-var]
    assert READY_LANES_MIN > 5


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_a_drain_ends_the_chunk_after_the_record_that_runs(bench: LaneBench, begun: int) -> None:
    """Nothing above it starts, no hole is left, the rest is returned."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 c2 d3")
    bench.receive(assignment, "e4")
    chunk = begin(bench)
    run(chunk, begun)
    bench.dispatcher.drain(assignment, below_started=True)
    assert run(chunk) == []
    assert bench.dispatcher.drained(assignment) == (begun == 0)
    hand_in(bench, chunk)
    assert run_all(bench) == []
    assert bench.dispatcher.drained(assignment)
    assert assignment.watermark() == begun
    assert bench.dispatcher.end(assignment) == 5 - begun
    assert bench.is_empty()


def test_a_drain_finishes_what_lies_below_the_highest_started(bench: LaneBench) -> None:
    """A lane behind the chunk leaves no hole either."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 c3 d4")
    chunk = begin(bench)
    run(chunk, 1)
    slow = bench.dispatcher.end_early(chunk)
    assert slow is not None
    second = begin(bench)
    assert run(second, 2) == ["b1", "c3"]
    bench.dispatcher.drain(assignment, below_started=True)
    hand_in(bench, second)
    hand_in(bench, chunk)
    assert run_all(bench) == ["a2"]
    assert assignment.watermark() == 4
    assert bench.dispatcher.end(assignment) == 1


def test_a_lost_partitions_chunk_is_stale(bench: LaneBench) -> None:
    """What its worker does afterwards counts for nothing, and the other partitions go on."""
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 b1 c2")
    bench.receive(two, "x0")
    chunk = begin(bench)
    run(chunk, 2)
    assert bench.dispatcher.end(one) == 2
    assert run(chunk) == []
    hand_in(bench, chunk)
    assert bench.dispatcher.stale_records == 1
    assert run_all(bench) == ["x0"]
    assert bench.is_empty()


def test_a_held_record_keeps_the_watermark_while_chunks_go_on(bench: LaneBench) -> None:
    """Nothing at or above it is committed; other keys go on."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    chunk = begin(bench)
    run(chunk, 1)
    lane = bench.dispatcher.end_early(chunk)
    assert lane is not None
    lane.decision = HoldHead("poison")
    bench.settle(lane)
    bench.receive(assignment, "c2 a3 d4")
    assert run_all(bench) == ["b1", "c2", "d4"]
    assert assignment.watermark() == 0
    assert bench.dispatcher.parked_records == 2


def test_skipped_and_finished_before_are_no_part_of_a_chunk(bench: LaneBench) -> None:
    """They have their outcome as they arrive."""
    assignment = bench.assign(finished_before={1})
    bench.receive(assignment, "a0 b1 c2 d3", skipped={2})
    assert run_all(bench) == ["a0", "d3"]
    assert (assignment.finished_records, assignment.skipped_records) == (3, 1)
    assert assignment.watermark() == 4


def test_express_is_for_lanes_of_one_partition() -> None:
    """A handler-wide lane would need every key."""
    with pytest.raises(AssertionError):
        Dispatcher("handler").use_express(cast("Any", None))


@pytest.fixture
def asked() -> list[int]:
    """Of which offsets the user's order function was asked."""
    return []


@pytest.fixture
def users(asked: list[int]) -> LaneBench:
    """A bench whose keys come from a user's function, which fails for the key `z`."""

    def order_by(message: Any) -> str:
        asked.append(message.offset())
        if message.key() == b"z":
            raise ValueError("no order for z")
        return f"user's {message.key().decode()}"

    made = LaneBench(order_by=order_by, express=True)
    assert made.dispatcher.express is not None
    made.dispatcher.express.on = True
    return made


def test_a_users_function_is_asked_once_a_record_as_it_comes(users: LaneBench, asked: list[int]) -> None:
    """User code must not run later: that would be under the lock, or on any thread."""
    assignment = users.assign()
    assert not users.dispatcher.takes_unread(assignment)
    users.receive(assignment, "a0 b1 c2 a3")
    users.receive(assignment, "b4 a5")
    assert asked == [0, 1, 2, 3, 4, 5]
    chunk = begin(users)
    run(chunk, 2)
    lane = users.dispatcher.end_early(chunk)
    assert lane is not None
    assert (lane.key, lane.running) == ("user's b", True)
    second = begin(users)
    assert run(second, 2) == ["c2", "a3"]
    again = users.dispatcher.end_early(second)
    assert again is not None
    assert again.key == "user's a"
    users.receive(assignment, "c6 d7")
    users.dispatcher.drain(assignment, below_started=True)
    hand_in(users, second)
    hand_in(users, chunk)
    run_all(users)
    assert assignment.watermark() == 4
    assert asked == [0, 1, 2, 3, 4, 5, 6, 7]


def test_what_a_chunk_leaves_behind_lanes_keeps_its_keys(users: LaneBench) -> None:
    """The others of the chunk have theirs, in the middle of it, too."""
    assignment = users.assign()
    users.receive(assignment, "a0")
    chunk = begin(users)
    run(chunk, 1)
    users.dispatcher.end_early(chunk)
    users.receive(assignment, "b1 a2 c3 a4 d5")
    second = begin(users)
    assert run(second, 2) == ["b1", "c3"]
    lane = users.dispatcher.end_early(second)
    assert lane is not None
    assert lane.key == "user's c"
    assert run_all(users) == ["d5"]
    hand_in(users, chunk)
    hand_in(users, second)
    assert run_all(users) == ["a2", "a4"]
    assert assignment.watermark() == 6
    assert users.is_empty()


def test_records_without_a_key_go_in_lanes_with_the_rest_of_their_batch(users: LaneBench) -> None:
    """A failed `order_by` keeps its record from the handler; the order of the others holds."""
    assignment = users.assign()
    users.receive(assignment, "a0 b1")
    users.receive(assignment, "a2 z3 c4")
    users.receive(assignment, "a5 d6")
    assert waiting(assignment) == [[0, 1], [2, 3, 4], [5, 6]]
    chunk = begin(users)
    assert run(chunk) == ["a0", "b1"]
    hand_in(users, chunk)
    keys = [lane.key for lane in users.dispatcher.ready if not isinstance(lane, Chunk)]
    assert len(keys) == 3
    assert sum(isinstance(key, KeyFailure) for key in keys) == 1
    assert run_all(users)[-2:] != ["a5", "a2"]
    assert assignment.watermark() == 7
    assert users.is_empty()
