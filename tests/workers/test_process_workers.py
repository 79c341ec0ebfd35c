"""Worker processes: what travels, who is charged for a death, who is replaced, and that none is left."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError, WorkerDiedError
from ehkafka.events import WorkerProcessDied, WorkersLogNothing
from ehkafka.handlers.call import HandlerCall
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import Record, TopicPartition
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.processes import worker as process_worker
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.processes.workers import ProcessWorkers
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODE = Path(__file__).parent / "process_code"
LIMIT_S = 30.0


class Crew:
    """A pool of processes on one dispatcher, without a broker; failed records come again at once."""

    def __init__(self, directory: Path, handlers: Any, count: int = 1, **options: Any) -> None:
        self.directory = directory
        self.dispatcher = Dispatcher()
        self.exchange = Exchange(self.dispatcher, time.monotonic)
        self.assignment = self.dispatcher.assign(TopicPartition("t", 0), 1)
        self.failures: list[tuple[int, BaseException]] = []
        self.deaths: list[BaseException] = []
        self.events: list[Any] = []
        self.torn: list[BaseException] = []
        self.stops: list[tuple[Any, float | None]] = []
        self.next_offset = 0
        middleware = options.pop("middleware", ())
        settings = {name: options.pop(name) for name in ("batch_s",) if name in options}
        self.workers = ProcessWorkers(
            self.exchange,
            Processes(count, **settings),
            name="crew",
            call=HandlerCall(options.pop("function", handlers.handle), middleware, Record),
            parts={},
            on_failure=self._failed,
            on_death=self.deaths.append,
            on_tear_down_error=self.torn.append,
            on_stop=lambda drain, timeout_s: self.stops.append((drain, timeout_s)),
            emit=self.events.append,
            **options,
        )

    def _failed(self, lane: Any, error: BaseException) -> RetryHead:
        self.failures.append((lane.head.offset(), error))
        return RetryHead(0.0, "again")

    def receive(self, *values: str, keys: str | None = None) -> None:
        """Hand over records, each of its own key, or of the keys given as letters."""
        batch = []
        for number, value in enumerate(values):
            offset = self.next_offset + number
            key = keys[number].encode() if keys else b"%d" % offset
            batch.append(SimulatedMessage("t", 0, offset, key, value.encode(), headers=[("a", b"\x00\xff")]))
        self.next_offset += len(batch)
        with self.exchange.locked() as dispatcher:
            dispatcher.receive(self.assignment, batch, [m.key() for m in batch], 0.0)
        self.exchange.wake_one()

    def wait(self, true: Callable[[], Any]) -> Any:
        """Wait for it as the poll thread would, which readies lanes and wakes workers."""
        deadline_s = time.monotonic() + LIMIT_S
        while not (value := true()):
            assert time.monotonic() < deadline_s, f"waited in vain: {self.failures} {self.deaths}"
            with self.exchange.locked() as dispatcher:
                dispatcher.holds.unpark_due(time.monotonic())
            self.exchange.watch()
            time.sleep(0.002)
        return value

    def finish_all(self) -> None:
        """Wait until each record has an outcome."""
        self.wait(lambda: self.dispatcher.finished_records == self.next_offset)

    def warm_up(self) -> None:
        """Let the pool find out that records are cheap, so that batches are large."""
        self.receive(*["x"] * 300)
        self.finish_all()

    def lines(self, word: str) -> list[list[str]]:
        """What the handlers noted with this word."""
        path = self.directory / "lines"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split(" ")[1:] for line in lines if line.startswith(word + " ")]

    def close(self) -> None:
        """Let the workers leave, and see that no process is left."""
        (self.directory / "gate").touch()
        pids = self.workers.pids
        self.workers.stop(10.0)
        self.workers.let_go()
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the handlers as a child will."""
    monkeypatch.syspath_prepend(str(CODE))
    module = importlib.import_module("process_handlers")
    monkeypatch.setenv(module.DIRECTORY, str(tmp_path))
    return module


@pytest.fixture
def crew(tmp_path: Path, handlers: Any) -> Iterator[Callable[..., Crew]]:
    """Start pools that are closed when the test ends."""
    crews: list[Crew] = []

    def make(count: int = 1, *, start: bool = True, **options: Any) -> Crew:
        crews.append(Crew(tmp_path, handlers, count, **options))
        if start:
            crews[-1].workers.start()
        return crews[-1]

    yield make
    for one in crews:
        one.close()


def test_a_child_reads_of_a_record_what_the_parent_does(crew: Any, handlers: Any) -> None:
    """Each reading method and property of the copy gives what the original gives."""
    one = crew()
    one.receive("read")
    one.finish_all()

    message = SimulatedMessage("t", 0, 0, b"0", b"read", headers=[("a", b"\x00\xff")])

    [told] = one.lines("read")
    assert " ".join(told) == " ".join(map(repr, handlers._read(Record(message))))


def test_errors_come_back_as_they_were_where_they_can_be_rebuilt(crew: Any, handlers: Any) -> None:
    """The type, what it carries and the traceback in the child; else a stand-in of the same name and text."""
    one = crew()
    one.receive("told")
    one.receive("odd")
    one.wait(lambda: len({offset for offset, _ in one.failures}) == 2)
    told, odd = dict(one.failures)[0], dict(one.failures)[1]

    assert type(told) is handlers.Told
    assert told.code == 7
    assert "raise Told(7)" in str(told.__cause__)
    assert type(odd) is not handlers.Odd
    assert (type(odd).__name__, type(odd).__module__) == ("Odd", "process_handlers")
    assert str(odd) == "an odd failure"
    assert isinstance(odd, Exception)
    assert "raise Odd(7" in str(odd.__cause__)


def test_l10_a_killed_child_charges_the_record_that_ran_and_no_other(crew: Any) -> None:
    """L10: of a batch of twenty the fourth kills: one attempt of that one is spent, the order is kept."""
    one = crew()
    one.warm_up()
    first = one.next_offset
    one.receive(*["x"] * 3, "kill 1", *["x"] * 16, keys="aaaaabcabcabcabcabca")
    one.finish_all()

    [(offset, error)] = one.failures
    assert offset == first + 3
    assert isinstance(error, WorkerDiedError)
    assert "SIGKILL" in str(error)
    ends = [int(offset) for offset, _, _ in one.lines("end")]
    assert sorted(ends) == list(range(one.next_offset))  # each once: what was finished is not repeated
    of_a = [o for o in ends if o >= first and "aaaaabcabcabcabcabca"[o - first] == "a"]
    assert of_a == sorted(of_a)
    attempts = {int(offset): int(attempt) for offset, attempt, _ in one.lines("end")}
    assert {offset for offset, attempt in attempts.items() if attempt > 1} == {first + 3}
    [death] = [event for event in one.events if isinstance(event, WorkerProcessDied)]
    assert (death.how, death.was_running) == ("signal SIGKILL", True)


def test_l10_an_exit_code_is_named(crew: Any) -> None:
    """L10: a handler that leaves the process is charged, and its exit code told."""
    one = crew()
    one.receive("exit 7")
    one.wait(lambda: one.failures)

    assert "exit code 7" in str(one.failures[0][1])


def test_a_child_that_dies_idle_charges_nobody(crew: Any) -> None:
    """A killed idle child is found with the next batch, whose records never started."""
    one = crew()
    one.warm_up()
    [pid] = one.workers.pids
    os.kill(pid, signal.SIGKILL)
    one.receive("x", "x")
    one.finish_all()

    assert one.failures == []
    assert one.workers.pids != [pid]
    [death] = [event for event in one.events if isinstance(event, WorkerProcessDied)]
    assert not death.was_running


def test_a_slow_record_delays_nothing_of_its_batch_but_its_key(crew: Any) -> None:
    """C1: the rest of a batch that met a slow record is taken back and runs elsewhere."""
    one = crew(2)
    one.warm_up()
    first = one.next_offset
    one.receive("x", "wait", *["x"] * 30, keys="ba" + "acdefghijk" * 3)

    one.wait(lambda: one.dispatcher.finished_records == first + 1 + 27)
    ran = {int(offset) - first for offset, _, _ in one.lines("end") if int(offset) >= first}
    assert ran == {0, *(2 + n for n in range(30) if n % 10)}
    (one.directory / "gate").touch()
    one.finish_all()
    assert one.failures == []


def test_a_drain_waits_for_what_the_child_may_start_and_leaves_the_rest(crew: Any) -> None:
    """R1: with the head running and no hole below it, what was lent and did not start is returned."""
    one = crew()
    one.warm_up()
    first = one.next_offset
    one.receive("x", "wait", "x", "x", "x", keys="aaaaa")
    one.wait(lambda: one.lines("start")[-1][0] == str(first + 1))
    with one.exchange.locked() as dispatcher:
        dispatcher.drain(one.assignment, below_started=False)
    (one.directory / "gate").touch()

    def is_drained() -> bool:
        with one.exchange.locked() as dispatcher:
            return dispatcher.drained(one.assignment)

    one.wait(is_drained)
    watermark = one.assignment.watermark()
    ran = [int(offset) for offset, _, _ in one.lines("end")]
    assert watermark == max(ran) + 1
    assert ran == list(range(watermark))


def test_l2_a_cut_takes_a_long_batch_back_and_counts_what_the_child_has_finished(crew: Any) -> None:
    """L2: of a batch that takes seconds only the record that runs is waited for, and the others count."""
    one = crew(batch_s=10.0)
    one.warm_up()
    first = one.next_offset
    one.receive("x", "x", "wait", *["sleep 5"] * 3, keys="a" * 6)
    one.wait(lambda: one.lines("start")[-1][0] == str(first + 2))
    with one.exchange.locked() as dispatcher:
        dispatcher.drain(one.assignment, below_started=False)
    began_s = unstolen_s()
    # Known while the record still runs: a stop whose time is over then commits these.
    one.wait(lambda: one.assignment.watermark() == first + 2)
    assert unstolen_s() - began_s < 10.0  # twice `batch_s` is when a slow record is looked for
    (one.directory / "gate").touch()
    one.wait(lambda: one.assignment.watermark() == first + 3)
    with one.exchange.locked() as dispatcher:
        assert dispatcher.drained(one.assignment)
    assert one.lines("start")[-1][0] == str(first + 2)


def test_f15_an_overdue_record_costs_its_child_and_is_charged_alone(crew: Any) -> None:
    """F15: the child is killed at the deadline; only the record that ran spends an attempt."""
    one = crew(deadline_s=0.3)
    one.receive("sleep 60", "x", "x")
    one.wait(lambda: one.failures and one.dispatcher.finished_records == 2)

    assert {offset for offset, _ in one.failures} == {0}
    assert isinstance(one.failures[0][1], TimeoutError)
    assert "0.3 s" in str(one.failures[0][1])


def test_children_leave_signals_to_their_parent(crew: Any) -> None:
    """Ctrl-C and a group's SIGTERM reach the children, too: they go on until the parent has drained."""
    one = crew()
    one.receive("wait")
    one.wait(lambda: one.lines("start"))
    [pid] = one.workers.pids
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    (one.directory / "gate").touch()
    one.finish_all()

    assert one.failures == []
    assert one.workers.pids == [pid]


def test_stacks_show_where_a_busy_child_is(crew: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """L9: the stuck report names the child and the handler's line; what it told earlier is not kept."""
    monkeypatch.setattr("ehkafka.workers.processes.link.DUMPS_BYTES_MAX", 100)
    one = crew(2)
    one.receive("wait")
    one.wait(lambda: one.lines("start"))

    for _ in range(5):
        [(name, stack)] = one.workers.stacks().items()

    assert stack.count("Current thread") <= 1
    links = [worker._link for worker in one.workers._workers]
    assert max(os.fstat(link._dumps.fileno()).st_size for link in links) <= 2 * len(stack)
    assert name.startswith("ehkafka-crew-")
    assert "process_handlers.py" in stack
    assert f"in the child {one.lines('start')[0][2]}" in stack


def test_hooks_and_middleware_run_in_each_child(crew: Any, handlers: Any) -> None:
    """on_worker_start before its first record, on_worker_stop after the last, middleware around each."""
    one = crew(2, set_up=handlers.set_up, tear_down=handlers.tear_down, middleware=(handlers.middleware,))
    pids = {str(pid) for pid in one.workers.pids}
    one.receive("x")
    one.finish_all()
    assert one.workers.stop(10.0) == []

    assert {pid for (pid,) in one.lines("up")} == {pid for (pid,) in one.lines("down")} == pids
    assert one.lines("around")[0][1] in pids


def test_a_set_up_that_raises_is_raised_by_the_start(crew: Any, handlers: Any) -> None:
    """As with threads; and no child is left."""
    one = crew(2, start=False, set_up=handlers.set_up)
    (one.directory / "refuse").touch()

    with pytest.raises(ConnectionError, match="no pool"):
        one.workers.start()


def test_a_child_that_dies_before_it_is_ready_says_so(crew: Any, handlers: Any) -> None:
    """The start raises; nothing waits for ever."""
    one = crew(start=False, set_up=handlers.set_up)
    (one.directory / "die").touch()

    with pytest.raises(WorkerDiedError, match=r"exit code 9.*before it was ready"):
        one.workers.start()


def test_a_child_that_cannot_be_started_again_fails_the_app(
    crew: Any, handlers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few tries with growing waits in between the pool gives up visibly."""
    monkeypatch.setattr(process_worker, "START_AGAIN_S", 0.01)
    one = crew(set_up=handlers.set_up)
    (one.directory / "refuse").touch()
    one.receive("kill 9")
    one.wait(lambda: one.deaths)

    assert isinstance(one.deaths[0], WorkerDiedError)
    assert "5 times in a row: ConnectionError: no pool" in str(one.deaths[0])


def test_a_pool_grows_and_shrinks_while_it_runs(crew: Any) -> None:
    """O8: after a shrink no more handlers run at once than there are workers; no child is left over."""
    one = crew(1)
    one.workers.resize(3)
    assert len(set(one.workers.pids)) == one.workers.size == 3
    before = set(one.workers.pids)
    one.workers.resize(1)
    left = set(one.workers.pids)
    one.wait(lambda: not [pid for pid in before - left if Path(f"/proc/{pid}").exists()])
    one.receive(*["sleep 0.02"] * 5)
    one.finish_all()

    assert {int(pid) for _, _, pid in one.lines("end")} == left


def test_a_record_cannot_be_deferred(crew: Any) -> None:
    """The token would stay in the child: refused there, which fails the attempt."""
    one = crew()
    one.receive("defer")
    one.wait(lambda: one.failures)

    assert "cannot be deferred in a worker process" in str(one.failures[0][1])


def test_children_inherit_no_more_than_their_own_pipes(crew: Any) -> None:
    """No client's socket, no file of the parent, no other child's pipe."""
    extra = os.open(CODE, os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        one = crew(2)
        counts = [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in one.workers.pids]
    finally:
        os.close(extra)

    assert counts == [8, 8]  # stdin, stdout, stderr and five of ours


def test_a_large_record_travels_whole(crew: Any) -> None:
    """Larger than any pipe, in both encodings' reach."""
    one = crew()
    value = "read " + "x" * 3_000_000
    one.receive(value)
    one.receive("x" * 100_000, "x")
    one.finish_all()

    assert len(" ".join(one.lines("read")[0])) > len(value)


@pytest.mark.parametrize("what", ["lambda", "closure", "object"])
def test_what_cannot_be_pickled_is_refused_before_anything_starts(what: str) -> None:
    """The message names it and says what to do."""
    lock = threading.Lock()
    thing = {"lambda": lambda record: record, "closure": in_another(lock), "object": lock}[what]
    with pytest.raises(ConfigurationError, match=r"handler 'x'.*cannot be pickled for processes.*workers=16"):
        ProcessWorkers(
            Exchange(Dispatcher(), time.monotonic),
            Processes(1),
            name="x",
            call=None,
            parts={"handler 'x'": thing},
            **dict.fromkeys(("on_failure", "on_death", "on_tear_down_error", "on_stop", "emit"), print),
        )


def in_another(lock: Any) -> Callable[[], Any]:
    """Return a closure."""
    return lambda: lock


PROGRAM = """
import sys, time
sys.path.insert(0, {code!r})
import process_handlers
from ehkafka.handlers.call import HandlerCall
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import Record, TopicPartition
from tests.kit.simulated.message import SimulatedMessage
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.processes.workers import ProcessWorkers
from ehkafka.workers.processes.option import Processes
dispatcher = Dispatcher()
exchange = Exchange(dispatcher, time.monotonic)
names = ("on_failure", "on_death", "on_tear_down_error", "on_stop", "emit")
pool = ProcessWorkers(exchange, Processes(2), name="p", parts={{}}, **dict.fromkeys(names, print),
    call=HandlerCall(process_handlers.handle, (), Record))
pool.start()
dispatcher.receive(dispatcher.assign(TopicPartition("t", 0), 1), [SimulatedMessage("t", 0, 0, b"k", b"wait")],
    [b"k"], 0.0)
exchange.wake_one()
print(*pool.pids, flush=True)
time.sleep(60)
"""


def test_a_killed_parent_takes_its_children_along(tmp_path: Path, handlers: Any) -> None:
    """An idle child and one in the midst of a record both end when the parent is gone."""
    source = textwrap.dedent(PROGRAM).format(code=str(CODE))
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = parent.stdout.readline().split()
        lines = tmp_path / "lines"
        wait_until(lambda: lines.exists() and "start" in lines.read_text())
        parent.kill()
        wait_until(lambda: not [pid for pid in pids if is_alive(pid)])
    assert len(pids) == 2


def wait_until(true: Callable[[], Any]) -> None:
    """Poll with a deadline."""
    deadline_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def is_alive(pid: str) -> bool:
    """Whether a process runs; one that ended and that nobody waits for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_attempts_are_counted_in_the_child(crew: Any) -> None:
    """`record.attempt` is the parent's count, whichever child runs it."""
    one = crew()
    one.receive("kill 2")
    one.finish_all()

    attempts = defaultdict(list)
    for offset, attempt, _ in one.lines("start"):
        attempts[offset].append(int(attempt))
    assert attempts == {"0": [1, 2, 3]}


@pytest.mark.parametrize(
    ("here", "set_up", "told"),
    [
        ([], None, 0),
        ([logging.StreamHandler()], None, 1),
        ([logging.StreamHandler()], "set_up_logging", 0),
    ],
    ids=["nowhere", "here alone", "in both"],
)
def test_logging_that_is_set_up_here_but_not_in_the_children_is_told_once(
    crew: Any, handlers: Any, monkeypatch: pytest.MonkeyPatch, here: Any, set_up: str | None, told: int
) -> None:
    """What handlers log at INFO would vanish there; on_worker_start is where it can be set up."""
    monkeypatch.setattr(logging.getLogger(), "handlers", here)
    monkeypatch.setattr(logging.Logger, "manager", logging.Manager(logging.getLogger()))  # type: ignore[arg-type]
    one = crew(2, set_up=None if set_up is None else getattr(handlers, set_up))
    one.receive("x")
    one.finish_all()
    assert [event.worker for event in one.events if isinstance(event, WorkersLogNothing)] == [
        "ehkafka-crew"
    ] * told
