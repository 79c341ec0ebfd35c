"""Races between a chunk's worker and who ends the chunk early.

No broker: the test plays the poll thread. Threads are switched as often as the interpreter can.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.assignment import Assignment
from ehkafka.lanes.chunk import Chunk
from ehkafka.records import TopicPartition
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable


LIMIT_S = 20.0
PARTITION = TopicPartition("t", 0)
STEALS = 100_000

pytestmark = pytest.mark.usefixtures("switch_often")


def steals(pool: Any, wanted: int, *, for_s: float) -> str | None:
    """End short chunks early while they run, so often or so long; return what went wrong, None if nothing."""
    rng = random.Random(11)
    keys = [b"k%d" % n for n in range(30)]
    assignment = pool.assign()
    offset = ended = 0
    seen, quiet_s, ends_s = -1, time.monotonic(), time.monotonic() + for_s
    exchange, express = pool.exchange, pool.dispatcher.express
    while (feeds := ended < wanted and time.monotonic() < ends_s) or pool.handled < offset:
        if feeds and offset - pool.handled < 300:
            batch = [rng.choice(keys) for _ in range(rng.randrange(1, 12))]
            pool.receive(assignment, offset, batch)
            offset += len(batch)
        exchange.watch()
        for _ in range(20):
            for chunk in filter(Chunk.started, _with_workers(express)):
                exchange.end_early(chunk)
                exchange.wake_one()
                ended += 1
        if pool.dispatcher.holds.held:
            with exchange.locked() as dispatcher:
                dispatcher.holds.unpark_due(float("inf"))
        with exchange.locked():
            watermark = assignment.watermark() or 0
            missing = set(range(max(0, watermark - 400), watermark)) - pool.done[1]
        if missing:
            return f"watermark {watermark} passes the unfinished {sorted(missing)[:5]}"
        if pool.wrong:
            return str(pool.wrong[0])
        if pool.handled != seen:
            seen, quiet_s = pool.handled, time.monotonic()
        elif time.monotonic() - quiet_s > 2.0:
            return f"{offset - pool.handled} of {offset} records were never handled"
    deadline_s = time.monotonic() + LIMIT_S
    while pool.dispatcher.backlog_records and time.monotonic() < deadline_s:
        exchange.watch()
    with exchange.locked():
        if assignment.lanes or assignment.has_chunks or assignment.watermark() != offset:
            return f"{len(assignment.lanes)} lanes are left, watermark {assignment.watermark()} of {offset}"
        if (assignment.backlog_records, assignment.finished_records) != (0, offset):
            return f"counted {assignment.finished_records} of {offset}"
    assert ended
    return None


def _with_workers(express: Any) -> list[Chunk]:
    return [*express.live.copy(), *filter(None, [express.out])]


def test_ending_chunks_early_loses_and_overlaps_nothing(pool: Callable[..., Any]) -> None:
    """Against the worker's own end of its record: every record is handled once and in order."""
    assert steals(pool(4, express=True), 20_000, for_s=4.0) is None


def streams_race(pool: Callable[..., Any]) -> str | None:
    """End streams of four workers early, whose keys come up again while they run; some records fail once."""
    failed: set[int] = set()

    def work(lane: Any) -> None:
        time.sleep(0)  # lets the others in
        offset = lane.head.offset()
        if offset % 97 == 0 and offset not in failed:
            failed.add(offset)
            raise ValueError("once")

    racing = pool(4, work, stream_records_max=6)
    racing.forgives = True
    if (found := steals(racing, 20_000, for_s=4.0)) is None:
        assert failed
        assert racing.chunk_records > 1_000
    return found


def test_ending_streams_early_loses_and_overlaps_nothing(pool: Callable[..., Any]) -> None:
    """Every record is handled, in the order of its key, and none before the one that failed."""
    assert streams_race(pool) is None


def test_mutant_a_stream_is_handed_in_before_its_failed_record_has_a_lane(
    pool: Callable[..., Any], mutate: Callable[..., None]
) -> None:
    """Whoever settles it would count the failed record as finished."""
    mutate(ThreadWorkers, "_end_at_failure", "    return lane\n", "    return chunk\n")
    assert streams_race(pool) is not None


def test_a_stream_that_was_ended_before_it_began_says_nothing_of_costs(pool: Callable[..., Any]) -> None:
    """Its worker finds no record in it: that took no time, and the handler is not quick for it."""
    made = pool(1, stream_records_max=1)
    made.close()
    made.exchange.cost_s = made.exchange.mean_s = 1e-3
    said: list[float] = []
    made.exchange.note_lanes = said.append
    made.receive(made.assign(), 0, [b"a", b"b"])
    stream = made.dispatcher.begin()
    made.exchange.end_early(stream)
    made.workers._run_chunk(stream)
    assert (made.exchange.cost_s, made.exchange.mean_s, said) == (1e-3, 1e-3, [])


def test_lanes_that_were_cut_say_nothing_of_costs(pool: Callable[..., Any]) -> None:
    """Nor are those quick that a drain has emptied while they stood ready."""
    made = pool(1)
    made.close()
    made.exchange.cost_s = made.exchange.mean_s = 1e-3
    assignment = made.assign()
    made.receive(assignment, 0, [b"a"])
    lane = made.dispatcher.begin()
    lane.running = 0
    with made.exchange.locked() as dispatcher:
        dispatcher.drain(assignment, below_started=False)
    made.workers._turn(lane, 1)
    assert (made.exchange.cost_s, made.exchange.mean_s) == (1e-3, 1e-3)
    assert assignment.returned_records == 1


def last_records(wanted: int, for_s: float) -> str | None:
    """Take the rest of short chunks while they run, so often or so long; say what differed."""
    rng = random.Random(5)
    inbox: deque[Chunk] = deque()
    outbox: deque[list[int]] = deque()
    over = threading.Event()

    def handled(message: Any) -> int:
        time.sleep(0)  # lets the other thread in between two records
        return int(message.offset())

    def work() -> None:
        while not over.is_set():
            if inbox:
                outbox.append([handled(message) for message in inbox.popleft().iterator])  # type: ignore[union-attr]
            else:
                time.sleep(0)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    ends_s = time.monotonic() + for_s
    found = None
    taken = begun = between = 0
    while taken < wanted and time.monotonic() < ends_s and found is None:
        count = rng.randrange(1, 4)
        chunk = a_chunk(count)
        inbox.append(chunk)
        while taken % 2 and not chunk.started():
            time.sleep(0)
        for _ in range(rng.randrange(60)):
            pass
        rest = [message.offset() for message in chunk.take_rest()]
        while not outbox:
            time.sleep(0)
        started = outbox.popleft()
        known = [message.offset() for message in chunk.messages]
        if started + rest != list(range(count)) or known != started or chunk.size != len(started):
            found = f"started {started}, taken {rest}, known as started {known}"
        taken += 1
        begun += bool(started)
        between += bool(started and rest)
    over.set()
    worker.join()
    assert begun
    assert between
    return found


@pytest.mark.slow
def test_each_record_is_started_or_taken_and_it_is_known_which() -> None:
    """100 000 chunks, or as many as 15 s allow, emptied around their last record in a thread."""
    assert last_records(STEALS, for_s=15.0) is None


def run_until(step: int, chunk: Chunk, take: Callable[[], Any]) -> tuple[list[int], int]:
    """Run a chunk, and `take` before a step of the interpreter; return what started, and the steps in all."""
    started: list[int] = []
    steps = 0

    def run() -> None:
        for message in chunk.iterator:  # type: ignore[union-attr]
            started.append(message.offset())  # noqa: PERF401 - a step of its own

    def traced(frame: Any, event: str, _argument: Any) -> Any:
        nonlocal steps
        if frame.f_code is not run.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            if steps == step:
                take()
            steps += 1
        return traced

    before = sys.gettrace()
    # Python 3.12 looks at this when tracing begins, and not again when a frame asks for it later.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(traced)
    try:
        run()
    finally:
        sys.settrace(before)
    return started, steps


@pytest.mark.parametrize("records", [1, 2, 3])
def test_a_chunk_may_be_emptied_between_any_two_steps_of_its_worker(records: int) -> None:
    """The interpreter changes threads between two of its instructions: before each of them, once."""
    chunk = a_chunk(records)
    _, steps = run_until(-1, chunk, lambda: None)
    assert steps > 5 * records
    places = set()
    for step in range(steps):
        chunk = a_chunk(records)
        rest: list[Any] = []
        started, _ = run_until(step, chunk, lambda chunk=chunk, rest=rest: rest.extend(chunk.take_rest()))
        assert started + [message.offset() for message in rest] == list(range(records))
        assert [message.offset() for message in chunk.messages] == started
        assert chunk.size == len(started)
        places.add(len(started))
    assert places == set(range(records + 1))


def a_chunk(records: int) -> Chunk:
    """Return a chunk in line."""
    messages: list[Any] = [SimulatedMessage("t", 0, offset) for offset in range(records)]
    chunk = Chunk(Assignment(PARTITION, 1), messages, records)
    chunk.line_up()
    return chunk
