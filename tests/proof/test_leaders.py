"""Replicas are away while outputs flow, in both modes; topics alone are judged.

Leaders and coordinators move in the runs of `scripts/proof`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import ehkafka
from ehkafka.events import OutputRefused
from ehkafka.run import exactly_once
from tests.contract.outputs_order import problems
from tests.kit.brokers import running
from tests.kit.cluster.cluster import KafkaCluster
from tests.kit.cluster.settings import INTERNAL_PARTITIONS
from tests.kit.events import Events
from tests.kit.topic_read import read_all, read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.broker

MODES = ("at-least-once", "exactly-once")
INPUTS, OUTPUTS, KEYS = 3, 6, 30
RATE = 150.0
CALL_S = 2e-3
# Shorter than some faults: the broker ends transactions that these hold up.
TRANSACTION_MS = 3000
# A frozen node loses what it leads after 2 s.
FAULT_S = 3.5
WAITS_S = 1.5
# Of each producer of transactions here, as if it were drawn: a group fences a static member whose join met a
# coordinator that died.
ID = "drawn"
DONE_S = 90.0


class Copies:
    """One app that copies a topic of the cluster, and a writer that fills it."""

    def __init__(self, cluster: KafkaCluster, name: str, *, is_exact: bool, in_sync_min: int) -> None:
        self.cluster, self.name, self.is_exact = cluster, name, is_exact
        self.events, self.written = Events(), 0
        self._is_over = threading.Event()
        self._writer = threading.Thread(target=self._write, name=f"writes {name}")
        cluster.create_topic(name, INPUTS)
        cluster.create_topic(self.out, OUTPUTS, {"min.insync.replicas": str(in_sync_min)})
        cluster.create_topic(self.dead, 1)
        options: dict[str, Any] = {"producer": {"transaction.timeout.ms": TRANSACTION_MS}}
        if is_exact:
            options |= {"exactly_once": True}
        self.app = ehkafka.App(
            endpoint=ehkafka.Endpoint.kafka(cluster.bootstrap_for("app")),
            group=name,
            start="earliest",
            consumer={"session.timeout.ms": 6000},
            **options,
        )
        self.app.add_hook(self.events)
        self.app.handler(name, to=self.out, workers=4, on_failure=ehkafka.DeadLetter(self.dead))(copy)

    @property
    def out(self) -> str:
        """Where its outputs go."""
        return f"{self.name}-out"

    @property
    def coordinator(self) -> int:
        """Which partition of `__transaction_state` its transactional id belongs to."""
        hashed = 0
        for character in f"ehkafka-{self.name}-{ID}-{len(ID)}":
            hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
        return min(hashed, (1 << 32) - hashed) % INTERNAL_PARTITIONS

    @property
    def dead(self) -> str:
        """Where its dead letters would go."""
        return f"{self.name}-dead"

    def start(self) -> None:
        """Let records and outputs flow."""
        self._writer.start()
        self.app.start()
        wait_until(lambda: self.acknowledged > 50)

    @property
    def acknowledged(self) -> int:
        """How many records are committed, each with its output."""
        committed = self.cluster.committed(self.name, self.name)
        return sum(offset or 0 for offset in committed.values())

    def _write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        began_s = time.monotonic()
        while not self._is_over.wait(0.01):
            while self.written < (time.monotonic() - began_s) * RATE:
                producer.produce(self.name, b"", key=b"key-%d" % (self.written % KEYS))
                self.written += 1
            producer.poll(0.0)
        assert producer.flush(DONE_S) == 0

    def finish(self) -> None:
        """End the writer, and the app once all is committed."""
        self._is_over.set()
        if self._writer.is_alive():
            self._writer.join()
        wait_until(lambda: self.acknowledged == self.written, self.facts, DONE_S)
        self.app.stop()

    def facts(self) -> str:
        """Say where it stands."""
        return f"{self.name}: {self.acknowledged} of {self.written}, {self.app.health().reasons}"

    def end(self) -> None:
        """End what still runs after a failure."""
        self._is_over.set()
        if self.app.state == "running":
            self.app.stop()

    def wrong(self) -> list[str]:
        """Return what a reader of committed transactions finds wrong."""
        wanted: dict[bytes, list[bytes]] = defaultdict(list)
        for message in read_messages(self.cluster.bootstrap, self.name):
            wanted[message.key()].append(b"%d:%d" % (message.partition(), message.offset()))
        found = problems(wanted, read_all(self.cluster.bootstrap, self.out), repeats=not self.is_exact)
        if sum(map(len, wanted.values())) != self.written:
            found.append("the writer itself has lost or repeated some")
        if letters := read_messages(self.cluster.bootstrap, self.dead):
            found.append(f"{len(letters)} letters")
        return found + [event.sentence() for event in self.events.of(OutputRefused)]


def copy(record: Any) -> bytes:
    """Send where the record is from."""
    time.sleep(CALL_S)
    return b"%d:%d" % (record.partition(), record.offset())


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    """Run one cluster for the module."""
    with running(KafkaCluster(clients=("app",))) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _known_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactly_once, "secrets", SimpleNamespace(token_hex=lambda _bytes: ID))


@contextmanager
def flowing(cluster: KafkaCluster, name: str, *, in_sync_min: int = 2) -> Iterator[list[Copies]]:
    """Give an app of each mode: they meet the same faults. In the end all is judged."""
    name = f"{name}-{uuid.uuid4()}"  # a second try has topics of its own
    apps = [
        Copies(cluster, f"{name}-{mode}", is_exact=mode == MODES[1], in_sync_min=in_sync_min)
        for mode in MODES
    ]
    try:
        for app in apps:
            app.start()
        yield apps
        for app in apps:
            app.finish()
    finally:
        for node in cluster.nodes:
            if node.is_suspended:
                node.resume()
        for app in apps:
            app.end()
    wrong = {app.name: app.wrong()[:20] for app in apps}
    assert wrong == {app.name: [] for app in apps}, f"FACT: {wrong}"


def test_too_few_replicas_in_sync_hold_outputs_back_and_refuse_none(shared: KafkaCluster) -> None:
    """For longer than a transaction may be open; then with a majority away as well."""
    with flowing(shared, "replicas", in_sync_min=3) as apps:
        first, second, _ = shared.nodes
        first.suspend()
        wait_until(lambda: stands(apps))
        time.sleep(FAULT_S)
        second.suspend()
        time.sleep(FAULT_S)
        second.resume()
        first.resume()
        shared.wait_until_in_sync()


def stands(apps: list[Copies]) -> bool:
    """Tell whether nothing is committed for some time, although a hundred are written in a second."""
    before = [app.acknowledged for app in apps]
    time.sleep(WAITS_S)
    return [app.acknowledged for app in apps] == before
