"""Which streams the poll thread's watch ends early: those whose record takes long while others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
