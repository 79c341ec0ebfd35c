"""Apps for Spark's engine, tasks of theirs without a JVM, and handlers that write down what they were given.

Handlers run in other processes than the tests, so they write to files: one line for each call.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

import ehkafka
from ehkafka.ranges.places import Piece
from ehkafka.run.ending import RunEnding
from ehkafka.spark.engine.batches import Batches
from ehkafka.spark.engine.follow import Follower
from ehkafka.spark.engine.group.ownership import Tag
from ehkafka.spark.engine.run import SparkRun
from ehkafka.spark.engine.signs import Signs
from ehkafka.spark.engine.tasks.results import PartitionResult
from ehkafka.spark.engine.tasks.shipment import app_of, to_ship
from ehkafka.spark.engine.tasks.work import TaskWork
from ehkafka.testing import EmbeddedBroker
from tests.kit import waiting
from tests.kit.simulated.message import SimulatedMessage
from tests.spark.engine.fake_group import FakeGroup
from tests.spark.engine.group_runs import Runs
from tests.spark.engine.sent import Out
from tests.spark.kept import close_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ehkafka.run.options import AppOptions

KEYS = 7


def make_app(**settings: Any) -> ehkafka.App:
    """Return an app that reaches no broker."""
    return ehkafka.App(
        **{
            "group": "g",
            "start": "earliest",
            "endpoint": ehkafka.Endpoint.kafka("127.0.0.1:1"),
            "stop_s": 5.0,
            **settings,
        }
    )


def parts_of(app: ehkafka.App) -> AppOptions:
    """Return what `App.run_on_spark` hands over."""
    return app._options()


def log_of(
    count: int, *, topic: str = "t", partition: int = 0, keys: int = KEYS, start: int = 0
) -> list[Any]:
    """Return the records of one partition, keys in turn."""
    return [
        SimulatedMessage(topic, partition, offset, b"k%d" % (offset % keys))
        for offset in range(start, start + count)
    ]


def as_batches(*logs: Sequence[Any], size: int = 100) -> list[tuple[Piece, list[Any]]]:
    """Return what reading gives for these partitions: parts of each, in turn."""
    found = []
    longest = max(map(len, logs))
    for at in range(0, longest, size):
        found += [(piece_of(log), list(log[at : at + size])) for log in logs if len(log) > at]
    return found


def piece_of(log: Sequence[Any]) -> Piece:
    """Return the piece that a partition's records are."""
    return Piece(log[0].topic(), log[0].partition(), log[0].offset(), log[-1].offset() + 1)


def task_of(app: ehkafka.App, *logs: Sequence[Any]) -> TaskWork:
    """Return an app's task over the records of some partitions, as it is where tasks run."""
    found = app_of(to_ship(parts_of(app)), app.endpoint)
    return TaskWork(found, [piece_of(log) for log in logs])


def run_task(app: ehkafka.App, *logs: Sequence[Any], size: int = 100) -> list[PartitionResult]:
    """Run an app's handlers over the records of some partitions, as one task."""
    return task_of(app, *logs).run(as_batches(*logs, size=size))


def _appends_to(path: str) -> Callable[..., None]:
    # Made here, so that it goes to executors by value: they cannot import this module.
    def note(*words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    return note


class Journal:
    """A file to which handlers in any process append whole lines by `note`, and what it says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note = _appends_to(str(path))

    def lines(self) -> list[list[str]]:
        """Return the words of each line."""
        if not self.path.exists():
            return []
        return [line.split() for line in self.path.read_text().splitlines()]

    def handled(self) -> dict[tuple[str, int], list[int]]:
        """Return the offsets of `note(topic, partition, offset, …)` lines, by partition, in order."""
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for words in self.lines():
            found[words[0], int(words[1])].append(int(words[2]))
        return dict(found)

    def offsets(self) -> dict[int, list[int]]:
        """Return the same by the partition's number alone, sorted."""
        return {partition: offsets for (_topic, partition), offsets in sorted(self.handled().items())}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Return a file for what handlers were given."""
    return Journal(tmp_path / "journal")


def wait_until(true: Callable[[], Any], timeout_s: float = 400.0) -> Any:
    """Wait for as long as a Spark that starts may take."""
    return waiting.wait_until(true, timeout_s=timeout_s)


class FakeBatches(Batches):
    """Batches whose rows the test gives."""

    def __call__(self, results: list[PartitionResult], batch: int) -> None:  # type: ignore[override]
        """Run a batch."""
        rows = [(one.row,) for one in results]
        super().__call__(SimpleNamespace(collect=lambda: rows), batch)  # type: ignore[arg-type]


def some(value: Any) -> Any:
    """Return it as Scala does what may be missing."""
    return SimpleNamespace(isDefined=lambda: True, get=lambda: value)


class FakeQuery:
    """A query whose progress and trigger the test decides."""

    def __init__(self) -> None:
        self.isActive = True
        self.is_busy = False
        self.says = "Waiting for data to arrive"
        self.error: Exception | None = None
        self.progress: list[dict[str, Any]] = []
        self.stopped_while_busy: bool | None = None
        self.batches = FakeBatches()
        # How many tasks run, at each look; none after the last.
        self.tasks: list[int] = []
        self.tracker = SimpleNamespace(
            getJobIdsForGroup=lambda group: [7, 3] if group == "run" else [],
            getJobInfo=lambda _job: some(SimpleNamespace(stageIds=lambda: [5])),
            getStageInfo=lambda _stage: some(
                SimpleNamespace(numActiveTasks=lambda: self.tasks.pop(0) if self.tasks else 0)
            ),
        )
        self._jsq = SimpleNamespace(
            lastProgress=lambda: self._as_java(self.progress[-1]) if self.progress else None,
            recentProgress=lambda: [self._as_java(one) for one in self.progress],
            runId=lambda: "run",
            sparkSession=lambda: SimpleNamespace(
                sparkContext=lambda: SimpleNamespace(statusTracker=lambda: self.tracker)
            ),
        )

    @staticmethod
    def _as_java(progress: dict[str, Any]) -> Any:
        return SimpleNamespace(json=lambda: json.dumps(progress))

    @property
    def status(self) -> dict[str, Any]:
        """Tell whether a batch runs."""
        return {"isTriggerActive": self.is_busy, "message": self.says}

    def exception(self) -> Exception | None:
        """Return what ended it."""
        return self.error

    def stop(self) -> None:
        """End, and note whether that cut a batch off."""
        self.stopped_while_busy = self.is_busy
        self.isActive = False

    def add(self, batch: int, end: int, received: int, timestamp: str = "") -> None:
        """Append a progress; without records it is that of a look which found nothing new."""
        if received:
            self.batches([PartitionResult("t", 0, received=received, finished=received)], batch)
        rows = 1 if received else 0
        self.progress.append(
            {
                "timestamp": timestamp or f"2026-01-01T00:00:{len(self.progress):02d}.000Z",
                "batchId": batch,
                "numInputRows": rows,
                "durationMs": {"triggerExecution": 250},
                "sources": [
                    {
                        "endOffset": {"t": {"0": end}},
                        "latestOffset": {"t": {"0": 40}},
                        "numInputRows": rows,
                    }
                ],
            }
        )


def assert_key_order(calls: Iterable[tuple[Any, int]]) -> None:
    """Fail when the offsets of one key do not ascend."""
    last: dict[Any, int] = {}
    for key, offset in calls:
        assert last.get(key, -1) < offset, f"FACT: {key} was handled at {offset} after {last[key]}"
        last[key] = offset


def noting(app: ehkafka.App, note: Callable[..., None], topic: str = "t", **options: Any) -> None:
    """Register a handler that writes down what it is given."""

    def handle(record: ehkafka.Record) -> None:
        note(record.topic(), record.partition(), record.offset(), record.key().decode())

    app.handler(topic, **options)(handle)


def assert_once(journal: Journal, count: int) -> None:
    """Fail unless each record was handled exactly once and each key in its order."""
    lines = journal.lines()
    assert len(lines) == len({tuple(line[:3]) for line in lines}) == count, "FACT: lost or handled twice"
    assert_key_order(((topic, key), int(offset)) for topic, _, offset, key in lines)


def ends_of(broker: EmbeddedBroker) -> dict[int, int]:
    """Return where the logs of `t` end."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    found = {n: consumer.get_watermark_offsets(KafkaPartition("t", n))[1] for n in range(4)}
    consumer.close()
    return found


@pytest.fixture
def lab() -> SimpleNamespace:
    """Return what the tests of this room share."""
    shared = (
        make_app, parts_of, log_of, as_batches, piece_of, task_of, run_task, wait_until, assert_key_order,
        noting, assert_once, ends_of, some, FakeQuery,
    )  # fmt: skip
    return SimpleNamespace(**{one.__name__: one for one in shared})


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return an embedded broker of this test alone."""
    with EmbeddedBroker({"t": 4, "u": 1, "dead": 1}) as broker:
        yield broker
    close_idle()


@pytest.fixture
def produced(broker: EmbeddedBroker) -> Callable[..., int]:
    """Return what produces so many records of 40 keys, in turn, and returns how many."""
    numbers = itertools.count()

    def produce(count: int, topic: str = "t") -> int:
        places = list(itertools.islice(numbers, count))
        return broker.produce(topic, [(b"k%d" % (n % 40), b"%d" % n) for n in places])

    return produce


@pytest.fixture
def app_at(broker: EmbeddedBroker) -> Callable[..., ehkafka.App]:
    """Return what makes an app of the group `g` on the broker."""

    def make(**settings: Any) -> ehkafka.App:
        return make_app(endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), **{"stop_s": 30.0, **settings})

    return make


def without_facts(metadata: str) -> str:
    """Return the tag in a commit's metadata as it is where no fact is known; else the metadata."""
    tag = Tag.read(metadata)
    return metadata if tag is None else tag.text


@pytest.fixture
def group_commits(broker: EmbeddedBroker) -> Iterator[Callable[..., dict[int, tuple[int, str]]]]:
    """Return what commits for the group from outside, or says what it has: offset and metadata.

    A run's tag is returned without the facts of the log that stand next to it.
    """
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})

    def check(new: dict[int, tuple[int, str]] | None = None) -> dict[int, tuple[int, str]]:
        if new is not None:
            wanted = [KafkaPartition("t", number, at, metadata=text) for number, (at, text) in new.items()]
            consumer.commit(offsets=wanted, asynchronous=False)
        answers = consumer.committed([KafkaPartition("t", number) for number in range(4)], timeout=10)
        return {one.partition: (one.offset, without_facts(one.metadata or "")) for one in answers}

    yield check
    consumer.close()


@pytest.fixture
def runs(app_at: Callable[..., Any], lab: Any) -> Iterator[Runs]:
    """Return what opens runs of the group `g`."""
    opened = Runs(app_at, lab.parts_of)
    yield opened
    opened.close()


@pytest.fixture
def scene(tmp_path: Path, lab: Any) -> Iterator[SimpleNamespace]:
    """Return a query, its group and what follows it; `scene.start()` begins."""
    query, group, events = lab.FakeQuery(), FakeGroup(), []
    ended: list[str] = []
    scene = SimpleNamespace(query=query, group=group, events=events, ended=ended, signs=Signs(tmp_path))
    scene.is_session_over = False
    scene.end = lambda: ended.append("end")

    def on_end() -> None:
        scene.end()

    scene.queries = [query]
    ending = RunEnding(lab.parts_of(lab.make_app()))
    follower = Follower(
        query.batches,
        group,  # type: ignore[arg-type]
        ending,
        signs=scene.signs,
        is_session_over=lambda: scene.is_session_over,
        stop_s=5.0,
        emit=events.append,
        on_stop=on_end,
        on_end=lambda: None,
    )
    follower.begin(lambda: scene.queries.pop(0))
    scene.run = SparkRun(follower)
    scene.start = threading.Thread(target=follower.run, daemon=True).start
    scene.follower, scene.stop_s = follower, follower.stop_s
    yield scene
    scene.run.query.is_busy = False
    ending.request_stop("the test is over")
    assert ending.wait(10)


@pytest.fixture
def out(broker: EmbeddedBroker, lab: Any) -> Iterator[Out]:
    """Return the embedded broker with `out`, of two partitions, and `more`."""
    broker.create_topic("out", 2)
    broker.create_topic("more", 1)
    yield Out(broker, lab)
    close_idle()
