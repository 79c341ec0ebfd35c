"""A test's stage on a broker: a topic, a group, members as processes, apps in this process, a load."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer

import ehkafka
from ehkafka.records import TopicPartition
from tests.kit.checker.checker import Checker, check_history
from tests.kit.checker.history import MemoryHistory
from tests.kit.checker.history_file import JsonLinesHistory, read_history
from tests.kit.fault_runs import dice_of, note_verdict
from tests.kit.inside import with_history
from tests.kit.processes import MemberProcess
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import Message

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.checker.verdict import Verdict

MEMBER = Path(__file__).with_name("member.py")
# A broker that has just started answers so.
NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
KEYS = 1000
BATCH_OPTIONS = {"batch_records_max", "wait_s_max"}
HANDLER_OPTIONS = {"workers", "retry", "on_failure", "to", "acknowledged", "scope", *BATCH_OPTIONS}
# The broker of the tests takes sessions from 1 s on; these are quick and yet bear a busy machine.
SESSION_S = 3.0
QUICK_GROUP = {"session.timeout.ms": int(SESSION_S * 1000), "heartbeat.interval.ms": 150}


class Load:
    """Produces records with Zipf-like keys, at a rate, on a thread of its own, and notes what the broker has.

    `ends` maps each partition to the offset behind the last acknowledged record. Without a rate, as fast
    as it can. `keys` are the ones it has, the most frequent first. With `survives` a broker may go and come
    back: what is sent again is written once.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        witness: JsonLinesHistory,
        *,
        rate: float | None,
        seed: int = 1,
        keys: Sequence[bytes] = (),
        survives: bool = False,
    ) -> None:
        self.ends: dict[int, int] = {}
        self.refused: list[KafkaError] = []
        self._topic = topic
        self._witness = witness
        self._rate = rate
        self._random = dice_of(f"load {seed}")
        self._keys = keys or [b"key-%d" % number for number in range(KEYS)]
        weights = [1 / rank for rank in range(1, len(self._keys) + 1)]
        self._weights = list(itertools.accumulate(weights))
        properties = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0}
        self._producer = Producer(properties | {"enable.idempotence": survives})
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """How many records the broker has."""
        return sum(self.ends.values())

    def produce(self, count: int) -> None:
        """Produce so many now and wait for all of them."""
        self.put_all(*self._random.choices(self._keys, cum_weights=self._weights, k=count))

    def put_all(self, *keys: bytes) -> None:
        """Produce a record with each key now and wait for all of them."""
        for key in keys:
            self.put(key)
        self._flush()

    def start(self) -> None:
        """Produce at the rate until `stop`."""
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it and wait for every acknowledgement."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._flush()

    def _run(self) -> None:
        assert self._rate is not None
        began_s, sent = time.monotonic(), 0
        while not self._stopping.wait(0.01):
            due = int((time.monotonic() - began_s) * self._rate) - sent
            for key in self._random.choices(self._keys, cum_weights=self._weights, k=due):
                self.put(key)
            sent += due
            self._producer.poll(0)

    def put(self, key: bytes) -> None:
        """Hand one record over; `produce` or `stop` waits for it."""
        while True:
            try:
                self._producer.produce(self._topic, b"x" * 100, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _flush(self) -> None:
        left = self._producer.flush(30.0)
        assert not left, f"{left} records were not acknowledged"
        assert not self.refused, f"the load was refused: {self.refused[0]}"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._witness.produced(TopicPartition(self._topic, partition), [offset])
        self.ends[partition] = offset + 1


class Stage:
    """One test's topic and group on a broker, its members and loads, and the judgement over all of them."""

    def __init__(self, broker: KafkaBroker, directory: Path) -> None:
        mark = uuid.uuid4().hex[:8]
        self.broker = broker
        self.topic = f"topic-{mark}"
        self.group = f"group-{mark}"
        self.directory = directory
        self._witnessed = directory / f"witness-{mark}.jsonl"
        self.witness = JsonLinesHistory(self._witnessed)
        self.members: list[MemberProcess] = []
        self.apps: list[ehkafka.App] = []
        self.memories: list[MemoryHistory] = []
        self._loads: list[Load] = []

    def load(
        self, rate: float | None = None, *, seed: int = 1, keys: Sequence[bytes] = (), survives: bool = False
    ) -> Load:
        """Return a load on the topic."""
        where = self.broker.bootstrap, self.topic, self.witness
        load = Load(*where, rate=rate, seed=seed, keys=keys, survives=survives)
        self._loads.append(load)
        return load

    def member(self, name: str, *arguments: str, consumer: dict[str, Any] | None = None) -> MemberProcess:
        """Return a member of the group as a process, not started yet."""
        where: dict[str, Any] = {"name": name, "directory": self.directory, "witness": self.witness}
        self.members.append(MemberProcess(MEMBER, [*self.arguments(consumer), *arguments], **where))
        return self.members[-1]

    def arguments(self, consumer: dict[str, Any] | None = None) -> list[str]:
        """Return what each member of the group has on its command line."""
        properties = {**QUICK_GROUP, **(consumer or {})}
        fixed = ["--bootstrap", self.broker.bootstrap, "--group", self.group, "--topic", self.topic]
        return fixed + [part for pair in properties.items() for part in ("--consumer", "{}={}".format(*pair))]

    def app(self, handler: Callable[[Any], object] | None = None, **options: Any) -> ehkafka.App:
        """Return an app of the group in this process, not started; it keeps a history and is stopped.

        With an option of batches its handler gets batches.
        """
        memory = MemoryHistory()
        self.memories.append(memory)
        history = options.pop("history", memory)
        handling = {name: options.pop(name) for name in HANDLER_OPTIONS & options.keys()}
        properties = {**QUICK_GROUP, "log_level": 0, **options.pop("consumer", {})}
        endpoint = options.pop("endpoint", None) or ehkafka.Endpoint.kafka(self.broker.bootstrap)
        settings = {"group": self.group, "start": "earliest", **options}
        app = with_history(ehkafka.App(endpoint=endpoint, consumer=properties, **settings), history)
        register = app.batch_handler if BATCH_OPTIONS & handling.keys() else app.handler
        register(self.topic, **handling)(handler or (lambda _record: None))
        self.apps.append(app)
        return app

    def committed(self) -> dict[int, int | None]:
        """Return the group's commits on the topic; nothing while the broker cannot tell yet."""
        try:
            return self.broker.committed(self.group, self.topic)
        except ehkafka.errors.EndpointError as error:
            if error.__cause__ is None or error.__cause__.args[0].code() not in NOT_YET:
                raise
            return {}

    def wait_until_committed(self, ends: dict[int, int], timeout_s: float = 60.0) -> None:
        """Wait until the group has committed these next_offsets."""

        def reached() -> bool:
            found = self.committed()
            return all(found.get(partition) == end for partition, end in ends.items())

        wait_until(reached, lambda: f"{ends} committed; {self.committed()} is\n{self.logs()}", timeout_s)

    def wait_until_worked_off(self, load: Load, timeout_s: float = 30.0) -> None:
        """Wait until the apps in this process have finished everything, committed or not."""

        def watermarks() -> dict[int, int | None]:
            snapshots = [app.snapshot() for app in self.apps if app.state == "running"]
            return {p.partition.partition: p.watermark for s in snapshots for p in s.partitions}

        wait_until(
            lambda: load.ends.items() <= watermarks().items(),
            lambda: f"{load.ends} finished; watermarks are {watermarks()}",
            timeout_s,
        )

    def stop_apps(self) -> None:
        """Stop the apps in this process, each with a drain."""
        for app in self.apps:
            app.stop()

    def verdict(self, checker: Checker | None = None) -> Verdict:
        """Judge all histories together. Call it when everything has stopped."""
        self.witness.close()
        paths = [path for member in self.members for path in member.histories]
        memories = sorted((e for m in self.memories for e in m.events), key=attrgetter("at_ns"))
        on_disk = read_history([self._witnessed, *paths])
        verdict = check_history(merge(on_disk, memories, key=attrgetter("at_ns")), checker)
        note_verdict(self.group, verdict)
        return verdict

    def judged(self, *, repeats: bool = True) -> Verdict:
        """Return the verdict: every promise is kept; without `repeats` no record was finished twice."""
        verdict = self.verdict()
        assert verdict.ok, verdict.report()
        assert repeats or verdict.duplicates == 0, verdict.report()
        return verdict

    def stop_members(self, *members: MemberProcess, timeout_s: float = 15.0) -> None:
        """Stop these members, or all that run; each must end well."""
        stopping = members or [member for member in self.members if member.is_running]
        for member in stopping:
            member.terminate()
        assert [member.wait(timeout_s) for member in stopping] == [0] * len(stopping), self.logs()

    def logs(self) -> str:
        """Return the end of every member's output."""
        return "\n".join(member.log_tail() for member in self.members)

    def close(self) -> None:
        """Stop all that still runs."""
        for load in self._loads:
            load.stop()
        for member in self.members:
            member.close()
        for app in self.apps:
            app.stop(drain=False, timeout_s=1.0)
        self.witness.close()


@pytest.fixture
def stage_on(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Return what sets a stage on a broker, with a topic of so many partitions, and clears it afterwards."""
    stages: list[Stage] = []

    def set_up(broker: KafkaBroker, partitions: int = 8, **config: str) -> Stage:
        stages.append(Stage(broker, tmp_path))
        broker.create_topic(stages[-1].topic, partitions, *filter(None, [config]))
        return stages[-1]

    yield set_up
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(kafka: KafkaBroker, stage_on: Callable[..., Stage]) -> Stage:
    """Return a stage on the shared broker, with a topic of 8 partitions."""
    return stage_on(kafka)
