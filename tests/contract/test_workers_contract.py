"""One contract for every kind of worker: the same promises, whoever executes the handler.

The handlers learn what to do from their records and share only files with the test, so that a kind which
runs them in another process needs nothing but a line in `KINDS`.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ehkafka
from ehkafka.events import PartitionAssigned, PartitionLost
from ehkafka.testing import ApiKey
from tests.contract.in_loop import InLoop
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Kind(NamedTuple):
    """How a handler of this kind is registered."""

    handler: str
    workers: Callable[[int], Any]
    # Whether coroutines run on a loop that enters the app.
    is_on_callers_loop: bool = False


KINDS = {
    "threads": Kind("handle", lambda count: count),
    "asyncio": Kind("handle_async", lambda count: count),
    "callers_loop": Kind("handle_async", lambda count: count, is_on_callers_loop=True),
    "processes": Kind("handle", ehkafka.Processes),
}


class Line(NamedTuple):
    """What a handler wrote down."""

    word: str
    partition: int
    offset: int
    key: str
    attempt: int


class Stage:
    """One kind's apps and what their handlers wrote down."""

    def __init__(self, lab: Any, kind: Kind, handlers: Any, directory: Path) -> None:
        self.lab = lab
        self.kind = kind
        self.handlers = handlers
        self.directory = directory
        self.entered: list[InLoop] = []

    def app(self, *topics: str, workers: int = 4, **options: Any) -> Any:
        """Make an app with this kind's handler."""
        handler = getattr(self.handlers, self.kind.handler)
        if not self.kind.is_on_callers_loop:
            return self.lab.app(handler, *topics, workers=self.kind.workers(workers), **options)
        app = self.lab.app(handler, *topics, workers=self.kind.workers(workers), loop="caller", **options)
        self.entered.append(InLoop(app))
        return self.entered[-1]

    def produce(self, *records: tuple[str, str], topic: str = "t", partition: int = 0) -> None:
        """Produce records of a key and what its handler is to do."""
        batch = [(key.encode(), reported.encode()) for key, reported in records]
        self.lab.broker.produce(topic, batch, partition=partition)

    def open(self, gate: str) -> None:
        """Let go on what waits for this gate."""
        (self.directory / gate).touch()

    def lines(self, word: str | None = None) -> list[Line]:
        """What was written down so far, or what of it has this word."""
        path = self.directory / "lines"
        text = path.read_text() if path.exists() else ""
        found = [line.split() for line in text.splitlines()]
        all_lines = [Line(w, int(p), int(o), key, int(a)) for w, _, p, o, key, a in found]
        return [line for line in all_lines if word in (None, line.word)]

    def offsets(self, word: str) -> list[int]:
        """Offsets of the lines with this word."""
        return [line.offset for line in self.lines(word)]

    @property
    def running(self) -> int:
        """How many calls have started and not ended."""
        return self.running_at(self.lines())

    @staticmethod
    def running_at(lines: list[Line]) -> int:
        """How many calls ran when the last of these lines was written."""
        return sum(1 if line.word == "start" else -1 for line in lines)

    @property
    def running_max(self) -> int:
        """How many ran at once at most."""
        now = most = 0
        for line in self.lines():
            now += 1 if line.word == "start" else -1
            most = max(most, now)
        return most


@pytest.fixture(params=KINDS)
def stage(
    request: pytest.FixtureRequest, lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    """Run each test for each kind of worker."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import contract_handlers  # noqa: PLC0415 - importable by children from the path above alone

    monkeypatch.setenv(contract_handlers.DIRECTORY, str(tmp_path))
    stage = Stage(lab, KINDS[request.param], contract_handlers, tmp_path)
    yield stage
    for gate in ("gate", "never"):
        stage.open(gate)
    for one in stage.entered:
        one.close()


def in_background(function: Callable[[], Any]) -> threading.Thread:
    """Call it on a thread of its own."""
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def ends_with(app: Any, kind: type[ehkafka.EhkafkaError], words: str) -> None:
    """Wait for the app to end by itself, and for the error that ended it."""
    assert app.wait(10.0)
    with pytest.raises(kind, match=words):
        app.stop()


# --- order ------------------------------------------------------------------------------------------


def test_each_key_runs_in_offset_order_and_never_overlaps(stage: Stage, wait_for: Any) -> None:
    """10 000 records, 200 keys, 4 partitions, random times: per key in order, each once, none lost."""
    rng = random.Random(1)
    reported = ["", "", "", "sleep 0", "sleep 0.001", "sleep 0.003"]
    for partition in range(4):
        records = [(f"k{rng.randrange(50)}", rng.choice(reported)) for _ in range(2_500)]
        stage.produce(*records, topic="t4", partition=partition)
    history = CheckingHistory()
    app = stage.app("t4", workers=16, history=history)
    app.start()
    wait_for(lambda: app.snapshot().finished_records == 10_000, timeout_s=60.0)
    app.stop()
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    last: defaultdict[tuple[int, str], int] = defaultdict(lambda: -1)
    open_calls: Counter[tuple[int, str]] = Counter()
    for line in stage.lines():
        lane = (line.partition, line.key)
        if line.word == "start":
            assert open_calls[lane] == 0
            assert last[lane] < line.offset
            last[lane] = line.offset
        open_calls[lane] += 1 if line.word == "start" else -1
    assert len(stage.lines("end")) == 10_000
    assert [stage.lab.committed(p, topic="t4") for p in range(4)] == [2_500] * 4


def test_a_waiting_key_holds_back_only_its_own_records(stage: Stage, wait_for: Any, stays: Any) -> None:
    """While A waits, B to Z finish and A's later records do not start."""
    alphabet = [chr(code) for code in range(ord("B"), ord("Z") + 1)]
    stage.produce(("A", "wait gate"), *((key, "") for key in alphabet), ("A", ""))
    app = stage.app()
    app.start()
    wait_for(lambda: len(stage.lines("end")) == len(alphabet))
    stays(lambda: [line.offset for line in stage.lines("start") if line.key == "A"] == [0])
    stage.open("gate")
    wait_for(lambda: stage.lab.committed() == len(alphabet) + 2)
    app.stop()


def test_no_more_handlers_run_than_there_are_keys(stage: Stage, wait_for: Any, stays: Any) -> None:
    """3 keys and 8 workers: exactly 3 handlers run, and everything gets done."""
    stage.produce(*((key, "wait gate") for _ in range(10) for key in "abc"))
    app = stage.app(workers=8)
    app.start()
    wait_for(lambda: stage.running == 3)
    stays(lambda: stage.running == 3)
    stage.open("gate")
    wait_for(lambda: len(stage.lines("end")) == 30)
    assert stage.running_max == 3
    app.stop()


def test_never_more_handlers_run_than_workers(stage: Stage, wait_for: Any, stays: Any) -> None:
    """A flood of 300 keys and 4 workers: 4 run, never 5."""
    stage.produce(*((f"k{n}", "wait gate") for n in range(100)))
    app = stage.app(workers=4)
    app.start()
    wait_for(lambda: stage.running == 4)
    stage.produce(*((f"k{n}", "sleep 0.001") for n in range(100, 300)))
    stays(lambda: stage.running == 4, for_s=0.2)
    stage.open("gate")
    wait_for(lambda: len(stage.lines("end")) == 300)
    assert stage.running_max == 4
    app.stop()


# --- commits and stops --------------------------------------------------------------------------------


def test_a_commit_never_passes_an_unfinished_record(stage: Stage, wait_for: Any, stays: Any) -> None:
    """Offset 0 in flight, 1 to 9 finished: committed stays 0; then it is 10 at once."""
    stage.produce(("a", "wait gate"), *((f"k{n}", "") for n in range(9)))
    app = stage.app()
    app.start()
    wait_for(lambda: len(stage.lines("end")) == 9)
    stays(lambda: stage.lab.committed() in (None, 0))
    stage.open("gate")
    wait_for(lambda: stage.lab.committed() == 10)
    app.stop()


def test_a_drain_ends_all_and_a_restart_of_the_app_repeats_nothing(stage: Stage, wait_for: Any) -> None:
    """What runs and what is queued ends and is committed; the same app starts again after it."""
    stage.produce(*((f"k{n % 4}", "wait gate") for n in range(8)))
    app = stage.app(workers=2)
    app.start()
    wait_for(lambda: app.snapshot().received_records == 8 and stage.running == 2)
    stopping = in_background(lambda: app.stop(drain="all"))
    wait_for(lambda: app.state == "stopping")
    stage.open("gate")
    stopping.join()
    assert stage.lab.committed() == 8
    stage.produce(("e", ""))
    app.start()
    wait_for(lambda: len(stage.lines("end")) == 9)
    app.stop()
    assert sorted(stage.offsets("start")) == list(range(9))


def test_without_drain_running_work_ends_and_queued_work_never_starts(stage: Stage, wait_for: Any) -> None:
    """What runs ends and is committed, what is queued is neither started nor committed."""
    stage.produce(*((key, "wait gate") for key in "ababab"))
    app = stage.app(workers=2)
    app.start()
    wait_for(lambda: app.snapshot().received_records == 6 and stage.running == 2)
    stopping = in_background(lambda: app.stop(drain=False))
    wait_for(lambda: app.snapshot().backlog_records == 2)
    stage.open("gate")
    stopping.join()
    assert sorted(stage.offsets("start")) == [0, 1]
    assert stage.lab.committed() == 2
    assert app.snapshot().returned_records == 4


def test_a_handler_that_never_ends_cannot_hold_the_stop_beyond_its_deadline(
    stage: Stage, wait_for: Any
) -> None:
    """stop(timeout_s=1) ends within a second more, names the record, commits what it may."""
    stage.produce(("a", ""), ("never", "wait never"), ("b", ""), ("never", ""))
    app = stage.app()
    app.start()
    wait_for(lambda: len(stage.lines("end")) == 2 and stage.running == 1)
    began_s = time.monotonic()
    watched_s = unstolen_s()
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@1 key never") as caught:
        app.stop(timeout_s=1.0)
    assert time.monotonic() - began_s >= 1.0
    assert unstolen_s() - watched_s < 2.0
    assert caught.value.exit_code == 4
    assert stage.lab.committed() == 1


# --- rebalance ----------------------------------------------------------------------------------------


def test_a_call_that_outlives_its_epoch_keeps_its_key_and_its_record_is_repeated(
    stage: Stage, wait_for: Any, events: Any, stays: Any
) -> None:
    """The partition is lost and comes back while a call runs: the next call waits, and alone counts."""
    stage.produce(("a", "wait gate"))
    app = stage.app()
    app.add_hook(events)
    app.start()
    wait_for(lambda: stage.running == 1)
    stage.lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_for(lambda: events.of(PartitionLost) and len(events.of(PartitionAssigned)) == 2)
    stays(lambda: stage.running_max == 1)
    stage.open("gate")
    wait_for(lambda: stage.lab.committed() == 1)
    app.stop()
    assert (len(stage.lines("start")), stage.running, stage.running_max) == (2, 0, 1)
    snapshot = app.snapshot()
    assert snapshot.finished_records == 1
    # A call that could be cancelled has no result to drop.
    assert snapshot.stale_records == len(stage.lines("end")) - 1


# --- failures -----------------------------------------------------------------------------------------


def test_by_default_a_record_that_fails_stops_the_app(stage: Stage, wait_for: Any) -> None:
    """The error names handler, record and cause; nothing at or above it is committed."""
    stage.produce(("a", ""), ("b", "fail ValueError 99"), ("c", ""))
    app = stage.app()
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, r"t\[0\]@1, key b.*ValueError: no luck with 1")
    assert stage.lab.committed() in (None, 0, 1)


def test_a_held_record_is_never_passed_and_other_keys_go_on(stage: Stage, wait_for: Any) -> None:
    """Hold: the failed record's followers wait, the others finish, health is red."""
    stage.produce(("a", ""), ("b", "fail ValueError 99"), ("c", ""), ("b", ""), ("d", ""))
    app = stage.app(on_failure=ehkafka.Hold())
    app.start()
    wait_for(lambda: sorted(stage.offsets("end")) == [0, 2, 4])
    wait_for(lambda: stage.lab.committed() == 1)
    assert not app.health().ok
    app.stop(drain=False)
    assert stage.lab.committed() == 1


def test_a_record_that_waits_for_its_retry_holds_neither_worker_nor_other_keys(
    stage: Stage, wait_for: Any
) -> None:
    """One worker: the others finish during the wait; the key goes on in order, attempts counted."""
    stage.produce(("a", "fail ValueError 2"), ("a", ""), ("b", ""), ("c", ""))
    app = stage.app(workers=1, retry=ehkafka.Retry(attempts=3, first_s=0.3, jitter=0.0, factor=1.0))
    app.start()
    wait_for(lambda: stage.lab.committed() == 4)
    app.stop()
    assert [(line.offset, line.attempt) for line in stage.lines("start") if line.key == "a"] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
    ]
    ends = stage.offsets("end")
    assert ends.index(2) < ends.index(0)
    assert ends.index(3) < ends.index(0)


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit", "MemoryError"])
def test_an_error_that_says_nothing_about_the_record_stops_the_app(stage: Stage, kind: str) -> None:
    """No policy takes it: the app ends without committing the record."""
    stage.produce(("a", f"fail {kind} 99"))
    app = stage.app(on_failure=ehkafka.Skip(), retry=ehkafka.Retry(attempts=3, first_s=0.01))
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, f"{kind}: no luck")
    assert stage.offsets("start") == [0]
    assert stage.lab.committed() in (None, 0)


def test_an_on_worker_start_that_raises_keeps_the_app_from_starting(stage: Stage) -> None:
    """Its error reaches the caller, and no record is handled."""
    stage.produce(("a", ""))
    app = stage.app()
    app.on_worker_start(stage.handlers.refuse_to_start)
    with pytest.raises(ConnectionError, match="no pool"):
        app.start()
    assert app.state == "stopped"
    assert stage.lines() == []
