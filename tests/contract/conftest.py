"""One embedded broker per test, apps on it that always stop, and handlers that stop where a test says.

Every app keeps a history, and every history is judged when its test ends: whatever a test is about,
a lost record, a premature commit or a broken order fails it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import ehkafka
from ehkafka.errors import ActionRefusedError
from tests.contract import contract_handlers
from tests.contract.batch_store import Store
from tests.contract.kinds import WORKERS, Stage
from tests.contract.mirrored import Mirrored
from tests.kit.checker.checker import Checker, check_history
from tests.kit.checker.history import MemoryHistory
from tests.kit.events import Events
from tests.kit.inside import with_history
from tests.kit.key_judge import overlapping_calls
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ehkafka.testing import EmbeddedBroker
    from tests.kit.checker.verdict import Verdict

LIMIT_S = 15.0
TOPICS = {"t": 1, "t4": 4, "u": 1}
# Whenever a member joins or leaves, the embedded broker waits the session time-out less one second.
# Nor does it answer a waiting fetch when records arrive.
FAST_GROUP = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}
# One member waits for none, so it may keep its partitions where the machine stands still.
ALONE = {"session.timeout.ms": 60_000}
BATCH_OPTIONS = {"batch_records_max", "batch_bytes_max", "wait_s_max"}
HANDLER_OPTIONS = BATCH_OPTIONS | {
    "order_by", "scope", "null_key", "workers", "raw", "headers", "retry", "on_failure", "deadline_s",
    "rate_limit", "to", "acknowledged", "decoder",
}  # fmt: skip


class Recorder:
    """A handler that keeps what it was given, counts who runs at once, and blocks where it is asked to."""

    def __init__(self, work: Callable[[Any], Any] | None = None) -> None:
        self.work = work
        self._lock = threading.Lock()
        # (topic, partition, offset) and key of each call, in the order of the starts, then of the ends.
        self.started: list[tuple[str, int, int]] = []
        self.finished: list[tuple[str, int, int]] = []
        self.keys: list[bytes | None] = []
        self.finished_keys: list[bytes | None] = []
        self.records: list[Any] = []
        self.running: Counter[Any] = Counter()
        self.running_max = 0
        self.running_max_of: Counter[Any] = Counter()
        self.threads: set[str] = set()
        self._blocks: list[tuple[Callable[[Any], bool], threading.Event]] = []

    def block(self, match: bytes | Callable[[Any], bool] | None = None) -> threading.Event:
        """Block the calls for a key, or for what a predicate matches, until the event is set."""
        if match is None:
            matches: Callable[[Any], bool] = lambda _record: True  # noqa: E731 - three one-line predicates
        elif callable(match):
            matches = match
        else:
            matches = lambda record: record.key() == match  # noqa: E731
        gate = threading.Event()
        self._blocks.append((matches, gate))
        return gate

    def open_all(self) -> None:
        """Let every blocked call go on."""
        for _, gate in self._blocks:
            gate.set()

    def fail_at(self, *offsets: int, error: type[BaseException] = ValueError, partition: int = 0) -> None:
        """Raise for these offsets of a partition."""

        def work(record: Any) -> None:
            if record.partition() == partition and record.offset() in offsets:
                raise error(f"no luck with {record.offset()}")

        self.work = work

    @property
    def count(self) -> int:
        """How many calls have returned."""
        return len(self.finished)

    def offsets(self, partition: int = 0, topic: str = "t") -> list[int]:
        """Offsets of one partition, in the order of their starts."""
        return [o for t, p, o in self.started if (t, p) == (topic, partition)]

    def finished_offsets(self, partition: int = 0, topic: str = "t") -> list[int]:
        """Offsets of one partition, in the order of their ends."""
        return [o for t, p, o in self.finished if (t, p) == (topic, partition)]

    def __call__(self, record: Any) -> None:
        """Handle a record."""
        where = (record.topic(), record.partition(), record.offset())
        scopes = ("all", where[:2], ("key", record.key()))
        with self._lock:
            self.started.append(where)
            self.keys.append(record.key())
            self.records.append(record)
            self.threads.add(threading.current_thread().name)
            self.running.update(scopes)
            for scope in scopes:
                self.running_max_of[scope] = max(self.running_max_of[scope], self.running[scope])
            self.running_max = max(self.running_max, self.running["all"])
        try:
            for matches, gate in self._blocks:
                if matches(record):
                    assert gate.wait(60.0)
            if self.work is not None:
                self.work(record)
        finally:
            with self._lock:
                self.running.subtract(scopes)
        with self._lock:
            self.finished.append(where)
            self.finished_keys.append(record.key())


class Lab:
    """One embedded broker and the apps on it."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.apps: list[ehkafka.App] = []
        self.recorders: list[Recorder | Store] = []
        self.histories: list[MemoryHistory] = []
        self.checker_options: dict[str, Any] = {}
        # Some tests break a promise on purpose, or have a broker that does; some let a key continue by hand
        # while a call of it runs.
        self.judged = self.keys_judged = True
        # What all of its apps tell.
        self.events = Events()

    @property
    def endpoint(self) -> ehkafka.Endpoint:
        """The broker, for `App`."""
        return ehkafka.Endpoint.kafka(self.broker.bootstrap)

    def produce(self, keys: str, *, topic: str = "t", partition: int = 0, value: bytes = b"x") -> None:
        """Produce one record for each word, which is its key; `-` is a record without one."""
        records = [(None if key == "-" else key.encode(), value) for key in keys.split()]
        self.broker.produce(topic, records, partition=partition)

    def recorder(self, work: Callable[[Any], Any] | None = None) -> Recorder:
        """Return a handler; its blocks are opened when the test ends."""
        recorder = Recorder(work)
        self.recorders.append(recorder)
        return recorder

    def store(self, work: Callable[[Any], Any] | None = None) -> Store:
        """Return a handler of batches; its gate is open when the test ends."""
        store = Store(work)
        self.recorders.append(store)
        return store

    def app(self, handler: Any = None, *topics: str, history: Any = None, **options: Any) -> Any:
        """Make an app of group `g` that commits ten times a second; it is stopped when the test ends.

        An option of batches makes it a batch handler; `history=False` leaves out what wraps each call.
        """
        if history is None:
            history = MemoryHistory()
            self.histories.append(history)
        handler_options = {name: options.pop(name) for name in HANDLER_OPTIONS & options.keys()}
        options = {"group": "g", "start": "earliest", "commit_interval_s": 0.1, **options}
        options["consumer"] = {**FAST_GROUP, **options.get("consumer", {})}
        options.setdefault("endpoint", self.endpoint)
        app = with_history(ehkafka.App(**options), history or None)
        app.add_hook(self.events)
        if handler is not None:
            register = app.batch_handler if BATCH_OPTIONS & handler_options.keys() else app.handler
            register(*(topics or ("t",)), **handler_options)(handler)
        self.apps.append(app)
        return app

    def start(self, handler: Any = None, *topics: str, **options: Any) -> Any:
        """Make an app and start it."""
        app = self.app(handler, *topics, **options)
        app.start()
        return app

    def start_without_commits(self, handler: Any, **options: Any) -> Any:
        """Make and start an app whose first commit is made, and whose next one is a minute away."""
        app = self.start(handler, commit_interval_s=60.0, **options)
        wait_until(lambda: self.committed() == 0)
        return app

    def committed(self, partition: int = 0, *, topic: str = "t", group: str = "g") -> int | None:
        """Return the group's committed next_offset, as the broker has it."""
        return self.broker.committed(group, topic)[partition]

    def verdict(self) -> Verdict:
        """Judge the histories of all apps together."""
        events = sorted((e for history in self.histories for e in history.events), key=lambda e: e.at_ns)
        return check_history(events, Checker(**self.checker_options))

    def overlaps(self) -> list[str]:
        """Return which calls began while another one of their key ran in the same process."""
        ordered = self.checker_options.get("null_key_ordered", False)
        histories = (history.events for history in self.histories)
        return [text for events in histories for text in overlapping_calls(events, null_key_ordered=ordered)]

    def close(self) -> None:
        """Stop what still runs in good order. A test has looked at what ended its apps."""
        for recorder in self.recorders:
            recorder.open_all()
        for app in reversed(self.apps):
            is_running = app.state == "running" and not app.wait(0.0)
            with nullcontext() if is_running else suppress(ehkafka.EhkafkaError):
                app.stop(drain="started" if is_running else False, timeout_s=10.0)


@contextmanager
def judged(broker: EmbeddedBroker) -> Iterator[Lab]:
    """Run a lab; its apps are stopped at the end and their histories judged."""
    lab = Lab(broker)
    try:
        yield lab
    finally:
        lab.close()
    if lab.judged:
        verdict = lab.verdict()
        assert verdict.ok, f"FACT: {verdict.report()}"
    if lab.keys_judged:
        assert not (overlaps := lab.overlaps()), f"FACT: {overlaps}"


@pytest.fixture
def lab(embedded_broker_factory: Callable[..., EmbeddedBroker]) -> Iterator[Lab]:
    """Run a broker with the topic `t` of one partition, `t4` of four, and `u` of one."""
    with judged(embedded_broker_factory(TOPICS)) as lab:
        yield lab


@pytest.fixture
def labs(embedded_broker_factory: Callable[..., EmbeddedBroker]) -> Callable[[], AbstractContextManager[Lab]]:
    """Make as many of them as a test asks for, one after the other."""
    return lambda: judged(embedded_broker_factory(TOPICS))


def ends_with(app: Any, kind: type[ehkafka.EhkafkaError], words: str | None = None) -> Any:
    """Wait for the app to end by itself; return the error that ended it."""
    assert app.wait(LIMIT_S)
    with pytest.raises(kind, match=words) as caught:
        app.stop()
    return caught.value


def refusal(action: Callable[[], object]) -> ActionRefusedError:
    """Return how an action is refused."""
    with pytest.raises(ActionRefusedError) as refused:
        action()
    return refused.value


@pytest.fixture
def held(lab: Lab, recorder: Recorder) -> Any:
    """Run an app whose first record, of key `a`, is held; `a` has two more behind it, `b` one."""
    recorder.fail_at(0)
    app = lab.start(recorder, on_failure=ehkafka.Hold())
    lab.produce("a a a b")
    wait_until(lambda: recorder.finished_offsets() == [3])
    wait_until(lambda: app.keys.blocking()[0].status == "waiting: on hold")
    return app


@pytest.fixture(params=WORKERS)
def stage(
    request: pytest.FixtureRequest, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    """Run each test for each kind of worker."""
    monkeypatch.setenv(contract_handlers.DIRECTORY, str(tmp_path))
    stage = Stage(lab, request.param, tmp_path)
    yield stage
    stage.close()


class Program:
    """A script in a process group of its own, with an app on the lab's broker; keeps the lines it prints."""

    PREAMBLE = """
import os, signal, sys, threading, time
import ehkafka
settings = eval(os.environ["SETTINGS"])
consumer = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}
app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka(os.environ["BROKER"]), start="earliest",
    commit_interval_s=0.1, consumer=consumer | settings.pop("consumer", {}), **settings)
def say(*words):
    # One write: print makes two, and another thread's line may come between.
    sys.stdout.write(" ".join(map(str, words)) + chr(10))
    sys.stdout.flush()
def run():
    try:
        app.run()
    except ehkafka.EhkafkaError as error:
        say("ERROR", type(error).__name__, error)
        sys.exit(error.exit_code)
    say("END")
"""

    def __init__(self, broker: EmbeddedBroker, source: str, **settings: Any) -> None:
        environment = {**os.environ, "BROKER": broker.bootstrap, "SETTINGS": repr(settings)}
        self._script = tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8")  # noqa: SIM115 - until close
        self._script.write(self.PREAMBLE + textwrap.dedent(source))
        self._script.flush()
        self.process = subprocess.Popen(
            [sys.executable, self._script.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env=environment,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, name="reads-the-program", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def printed(self, text: str) -> bool:
        """Whether a line holds this text."""
        return any(text in line for line in self.lines)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = LIMIT_S) -> int:
        """Return its exit code once all it said is read."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def close(self) -> None:
        """Kill it if it still runs, and let go of its pipes."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(LIMIT_S)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        self._script.close()


@pytest.fixture
def program(lab: Lab) -> Iterator[Callable[..., Program]]:
    """Start programs that find `app`, `say` and `run` defined; `settings` go to the app."""
    with ExitStack() as running:

        def start(source: str, **settings: Any) -> Program:
            program = Program(lab.broker, source, **settings)
            running.callback(program.close)
            return program

        yield start


@pytest.fixture
def recorder(lab: Lab) -> Recorder:
    """Return a handler that records."""
    return lab.recorder()


@pytest.fixture
def events(lab: Lab) -> Events:
    """Return the events of all apps."""
    return lab.events


@pytest.fixture
def read_topic(lab: Lab) -> Iterator[Callable[..., list[Any]]]:
    """Return `read_topic(topic, count)`: its records from the beginning, once there are so many."""
    with ExitStack() as readers:

        def read(topic: str, count: int) -> list[Any]:
            reader = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "reads", **FAST_GROUP})
            readers.callback(reader.close)
            there = reader.list_topics(topic).topics[topic].partitions
            reader.assign([TopicPartition(topic, number, 0) for number in there])
            found: list[Any] = []

            def enough() -> bool:
                found.extend(m for m in reader.consume(500, 0.02) if m.error() is None)
                return len(found) >= count

            wait_until(enough)
            return found

        yield read


@pytest.fixture
def dead(lab: Any) -> Any:
    """Return the lab with a topic for dead letters, of two partitions."""
    lab.broker.create_topic("dead", 2)
    return lab


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with topics to write to, and one for dead letters."""
    for topic, partitions in {"audit": 2, "out": 1, "own": 1, "dead": 1}.items():
        lab.broker.create_topic(topic, partitions)
    return lab


@pytest.fixture
def mirrored(lab: Any) -> Mirrored:
    """Return an empty store with apps around it."""
    return Mirrored(lab)
