"""Which streams the poll thread's watch ends early: those whose record takes long while others wait."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.lane import Lane
from ehkafka.records import TopicPartition
from ehkafka.workers.stream_watch import CHECK_S, LATE_S, LATE_TIMES, StreamWatch
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


P0 = TopicPartition("t", 0)
QUICK_S = 1e-4


class Bench:
    """One stream of three records and the watch over it."""

    def __init__(self) -> None:
        self.watch = StreamWatch()
        self.assignment = Assignment(P0, 1)
        messages = [SimulatedMessage("t", 0, offset, b"k%d" % offset) for offset in range(3)]
        self.stream = Chunk(self.assignment, messages, 0, [message.key() for message in messages])  # type: ignore[arg-type]
        self.stream.behind = []
        self.stream.line_up()

    def start(self, records: int) -> None:
        """Let its worker start so many."""
        assert self.stream.iterator is not None
        for _ in range(records):
            next(self.stream.iterator)

    def late_at(self, now_s: float, mean_s: float = QUICK_S) -> bool:
        """Tell whether the stream is late at a look."""
        return self.watch.late([self.stream], mean_s, now_s) == [self.stream]


def test_a_record_that_takes_long_is_late_once_it_is_over_the_limit() -> None:
    """Counted from the look that saw it first."""
    bench = Bench()
    bench.start(1)
    assert not bench.late_at(10.0)
    assert not bench.late_at(10.0 + 0.9 * LATE_S)
    assert bench.watch.may_be_late
    assert bench.late_at(10.0 + 2 * LATE_S)


def test_a_stream_that_moves_is_never_late() -> None:
    """However long it takes as a whole."""
    bench = Bench()
    for number in range(3):
        bench.start(1)
        assert not bench.late_at(10.0 + 2 * LATE_S * number)
        assert not bench.watch.may_be_late


def test_what_has_not_started_waits_for_its_worker_alone() -> None:
    """Ending it would help nobody: again and again, on a busy machine."""
    bench = Bench()
    assert not bench.late_at(10.0)
    assert not bench.late_at(10.0 + 2 * LATE_S)


def test_the_last_record_is_late_only_if_a_lane_waits_for_it() -> None:
    """Nobody waits for a stream's end but who stands behind it."""
    bench = Bench()
    bench.start(3)
    assert not bench.late_at(10.0)
    assert not bench.late_at(10.0 + 2 * LATE_S)
    assert bench.stream.behind is not None
    bench.stream.behind.append(Lane(b"k0", bench.assignment, bench.stream.messages[0]))
    assert bench.late_at(10.0 + 4 * LATE_S)


def test_slow_handlers_have_as_much_longer() -> None:
    """So many times of what most records take."""
    bench = Bench()
    bench.start(1)
    assert not bench.late_at(10.0, mean_s=LATE_S)
    assert not bench.late_at(10.0 + 0.9 * LATE_TIMES * LATE_S, mean_s=LATE_S)
    assert bench.late_at(10.0 + 1.1 * LATE_TIMES * LATE_S, mean_s=LATE_S)


def test_looks_have_their_time() -> None:
    """In between nothing is late, and nothing is forgotten."""
    bench = Bench()
    bench.start(1)
    assert not bench.late_at(10.0)
    assert bench.late_at(10.0 + 2 * LATE_S)
    assert not bench.late_at(10.0 + 2 * LATE_S + CHECK_S / 2)
    assert bench.late_at(10.0 + 2 * LATE_S + 2 * CHECK_S)


def shared_out(bench: Bench, idle: int, *, is_dry: bool = True) -> list[Chunk]:
    """Return what a look ends early for so many idle workers."""
    ended: list[Chunk] = []
    streams = SimpleNamespace(live={bench.stream: None}, is_dry=is_dry)
    bench.watch.end_late(streams, QUICK_S, 10.0, idle, ended.append)  # type: ignore[arg-type]
    return ended


def test_idle_workers_get_the_rest_of_a_stream_once_nothing_else_is_left() -> None:
    """Else the last records of a backlog wait for one another."""
    bench = Bench()
    bench.start(1)
    assert shared_out(bench, 1) == [bench.stream]


@pytest.mark.parametrize(
    ("started", "idle", "is_dry"), [(1, 0, True), (1, 2, False), (2, 2, True), (0, 2, True)]
)
def test_a_stream_is_its_workers_where_nobody_gains(started: int, idle: int, is_dry: bool) -> None:
    """No worker is idle; there is other work; one record is left; or its own worker has not begun."""
    bench = Bench()
    bench.start(started)
    assert shared_out(bench, idle, is_dry=is_dry) == []


def test_records_of_the_running_key_are_nobody_elses() -> None:
    """They wait for that one in any case."""
    bench = Bench()
    bench.stream.keys[:] = [b"k", b"k", b"k"]  # type: ignore[index]
    bench.start(1)
    assert shared_out(bench, 2) == []


def test_the_longest_come_first_and_no_more_than_there_are_idle_workers() -> None:
    """Each gives some workers more than one record."""
    short, long = Bench(), Bench()
    for offset in range(3, 6):
        long.stream.add(b"k%d" % offset, SimulatedMessage("t", 0, offset, b"k%d" % offset), 1)  # type: ignore[arg-type]
    short.start(1)
    long.start(1)
    watch = StreamWatch()
    watch.late([short.stream, long.stream], QUICK_S, 10.0)
    assert watch.longest(1) == [long.stream]
    assert watch.longest(5) == [long.stream, short.stream]


def _dies(mutate: Callable[..., None], guard: str, without: str, test: Callable[[], None]) -> bool:
    mutate(StreamWatch, "late", guard, without)
    try:
        test()
    except AssertionError:
        return True
    return False


def test_mutant_the_watch_takes_one_record_for_another(mutate: Callable[..., None]) -> None:
    """A stream of quick records would lose its rest after a few of them."""
    moves = test_a_stream_that_moves_is_never_late
    assert _dies(mutate, " or started != before.get(stream)", "", moves)


def test_mutant_the_watch_ends_what_has_not_started(mutate: Callable[..., None]) -> None:
    """Where threads wait long for the interpreter's lock no stream would ever run."""
    waits = test_what_has_not_started_waits_for_its_worker_alone
    assert _dies(mutate, "not started or ", "", waits)


def test_mutant_the_watch_overlooks_who_stands_behind(mutate: Callable[..., None]) -> None:
    """They would wait for as long as the last record takes: so does its own key, and nobody else may."""
    behind = test_the_last_record_is_late_only_if_a_lane_waits_for_it
    assert _dies(mutate, " and not stream.behind", "", behind)
