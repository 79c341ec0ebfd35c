"""A cluster of three nodes does what a fault is meant to do, as clients and the other nodes see it.

And apps in both modes hold their outputs while replicas are away. Leaders and coordinators move in the runs
of `scripts/proof`.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.errors import ConfigurationError
from ehkafka.events import OutputRefused
from ehkafka.run import exactly_once
from tests.contract.outputs_order import problems
from tests.integration.sent import inputs_of
from tests.kit.brokers import running
from tests.kit.cluster.cluster import KafkaCluster
from tests.kit.cluster.requests import PartitionState, cluster_state
from tests.kit.events import Events
from tests.kit.stage import stage_on
from tests.kit.topic_read import read_all, read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["stage_on"]

pytestmark = pytest.mark.broker

TOPIC = "orders"
PARTITIONS = 6
HOUR_S = 3600.0
NODES_TIME = {"message.timestamp.type": "LogAppendTime"}
# Of the apps that copy a topic.
INPUTS, OUTPUTS = 3, 6
KEYS = [b"key-%d" % number for number in range(30)]
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


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    """Run one cluster for the module, with two clients."""
    with running(KafkaCluster(clients=("app", "other"))) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, NODES_TIME)
        yield cluster


@pytest.fixture
def cluster(shared: KafkaCluster) -> Iterator[KafkaCluster]:
    """Hand the cluster to one test, in sync, and make it whole again, also when the test failed."""
    shared.wait_until_in_sync()
    yield shared
    shared.heal()
    for node in shared.nodes:
        if node.is_suspended:
            node.resume()
        if not node.is_running:
            node.restart()


def test_a_cut_is_between_one_client_and_one_node(cluster: KafkaCluster) -> None:
    """Each client knows the nodes by its own proxies alone, and only the one cut does not answer."""
    known = AdminClient({"bootstrap.servers": cluster.bootstrap_for("app")}).list_topics(timeout=5.0).brokers
    addresses = {f"{node.host}:{node.port}" for node in known.values()}
    assert addresses == set(cluster.bootstrap_for("app").split(","))
    assert addresses.isdisjoint(cluster.bootstrap_for("other").split(","))

    cluster.cut("app", cluster.nodes[1])

    assert answering(cluster, "app") == [True, False, True]
    assert answering(cluster, "other") == [True, True, True]
    cluster.heal("app", cluster.nodes[1])
    assert answering(cluster, "app") == [True, True, True]


def test_a_node_cut_off_from_the_others_loses_all_its_roles(cluster: KafkaCluster) -> None:
    """It is replaced as controller and as leader and is out of sync, while clients still reach it."""
    alone = cluster.controller()

    cluster.cut_off(alone)

    wait_until(lambda: cluster.controller() is not alone)
    in_sync = {node.number for node in cluster.nodes} - {alone.number}
    wait_until(lambda: all(set(state.in_sync) == in_sync for state in partitions(cluster)))
    assert {state.leader for state in partitions(cluster)} <= in_sync
    assert answering(cluster, "app") == [True, True, True]
    # Not by the node that is alone: it names the leaders that it knew, and holds what it cannot replicate.
    others = cluster.bootstrap_for("app").split(",")
    del others[alone.number - 1]
    written = write(",".join(others))
    cluster.heal(node=alone)
    cluster.wait_until_in_sync()
    assert list(read(cluster.bootstrap_for("app"), written)) == list(range(PARTITIONS))


def test_a_slow_node_delays_its_clients_and_no_others(cluster: KafkaCluster) -> None:
    """A question and its answer take twice the delay at that node alone."""
    cluster.slow(cluster.nodes[0], 0.2)

    times_s = [seconds(address) for address in cluster.bootstrap_for("app").split(",")]

    assert times_s[0] >= 0.4
    assert max(times_s[1:]) < 0.4
    cluster.heal(node=cluster.nodes[0])
    assert seconds(cluster.bootstrap_for("app").split(",")[0]) < 0.4


class Copies:
    """One app that copies a topic of the cluster, and a load that fills it."""

    def __init__(self, stage: Any, *, is_exact: bool) -> None:
        self.stage, self.is_exact, self.events = stage, is_exact, Events()
        self.out, self.dead = f"{stage.topic}-out", f"{stage.topic}-dead"
        stage.broker.create_topic(self.out, OUTPUTS, {"min.insync.replicas": "3"})
        stage.broker.create_topic(self.dead, 1)
        self.load = stage.load(RATE, keys=KEYS, survives=True)
        endpoint = ehkafka.Endpoint.kafka(stage.broker.bootstrap_for("app"))
        transactions = {"producer": {"transaction.timeout.ms": TRANSACTION_MS}, "exactly_once": is_exact}
        handling = {"to": self.out, "workers": 4, "on_failure": ehkafka.DeadLetter(self.dead)}
        patient = {"session.timeout.ms": 6000}
        self.app = stage.app(copy, endpoint=endpoint, consumer=patient, **handling, **transactions)
        self.app.add_hook(self.events)

    @property
    def acknowledged(self) -> int:
        """How many records are committed, each with its output."""
        return sum(offset or 0 for offset in self.stage.committed().values())

    def flows(self) -> bool:
        """Tell whether records are committed."""
        return self.acknowledged > 50

    def wrong(self) -> list[str]:
        """Return what a reader of committed transactions finds wrong."""
        bootstrap, inputs = self.stage.broker.bootstrap, inputs_of(self.stage)
        found = problems(inputs, read_all(bootstrap, self.out), repeats=not self.is_exact)
        if letters := read_messages(bootstrap, self.dead):
            found.append(f"{len(letters)} letters")
        return found + [event.sentence() for event in self.events.of(OutputRefused)]


def copy(record: Any) -> bytes:
    """Send where the record is from."""
    time.sleep(CALL_S)
    return b"%d:%d" % (record.partition(), record.offset())


def test_too_few_replicas_in_sync_hold_outputs_back_and_refuse_none(
    cluster: KafkaCluster, stage_on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For longer than a transaction may be open; then with a majority away as well. Both modes meet it."""
    monkeypatch.setattr(exactly_once, "secrets", SimpleNamespace(token_hex=lambda _bytes: ID))
    apps = [Copies(stage_on(cluster, INPUTS), is_exact=is_exact) for is_exact in (False, True)]
    first, second, _ = cluster.nodes
    for one in apps:
        one.load.start()
        one.app.start()
        wait_until(one.flows)
    first.suspend()
    wait_until(lambda: stands(apps))
    time.sleep(FAULT_S)
    second.suspend()
    time.sleep(FAULT_S)
    second.resume()
    first.resume()
    cluster.wait_until_in_sync()
    for one in apps:
        one.load.stop()
        one.stage.wait_until_committed(one.load.ends, DONE_S)
        one.app.stop()
    wrong = {one.out: one.wrong()[:20] for one in apps}
    assert not any(wrong.values()), f"FACT: {wrong}"


def stands(apps: list[Copies]) -> bool:
    """Tell whether nothing is committed for some time, although a hundred are written in a second."""
    before = [one.acknowledged for one in apps]
    time.sleep(WAITS_S)
    return [one.acknowledged for one in apps] == before


def test_one_node_is_a_cluster_too() -> None:
    """What runs on three nodes runs on one: it leads and controls everything. Its clock is its own."""
    with running(KafkaCluster(1, clients=("app",), clocks=True)) as cluster:
        (node,) = cluster.nodes
        cluster.create_topic(TOPIC, PARTITIONS, NODES_TIME)
        assert cluster.controller() is node
        assert cluster.move_leaders([TOPIC]) == 0
        with pytest.raises(ConfigurationError, match="the only node"):
            cluster.cut_off(node)

        cluster.step_clock(node, HOUR_S)
        assert hours_ahead(cluster) == {1}
        pid = node.pid
        cluster.step_clock(node, -HOUR_S)
        assert hours_ahead(cluster) == {0}
        assert node.pid != pid

        cluster.cut("app", node)
        assert answering(cluster, "app") == [False]


def hours_ahead(cluster: KafkaCluster) -> set[int]:
    """Return by how many hours the clocks of the nodes that append are ahead of this process's."""
    stamps = read(cluster.bootstrap_for("app"), write(cluster.bootstrap_for("app")))
    assert len(stamps) == PARTITIONS
    return {round((stamp / 1000 - time.time()) / HOUR_S) for stamp in stamps.values()}


def partitions(cluster: KafkaCluster, topic: str = TOPIC) -> list[PartitionState]:
    """Return a topic's partitions as the active controller's node knows them."""
    known = cluster.controller().state().partitions
    return [state for (name, _), state in sorted(known.items()) if name == topic]


def answering(cluster: KafkaCluster, client: str) -> list[bool]:
    """Return which nodes answer a client within half a second."""
    return [answers(address) for address in cluster.bootstrap_for(client).split(",")]


def answers(address: str) -> bool:
    """Return whether a node answers within half a second."""
    try:
        cluster_state(address, 0.5)
    except TimeoutError:
        return False
    return True


def seconds(address: str) -> float:
    """Return how long a node takes to answer."""
    began_s = time.monotonic()
    cluster_state(address, 5.0)
    return time.monotonic() - began_s


def write(bootstrap: str) -> bytes:
    """Write one new value to each partition, acknowledged by all replicas in sync; return it."""
    value = b"%d" % time.monotonic_ns()
    for partition in range(PARTITIONS):
        produce(bootstrap, TOPIC, [(None, value)], partition=partition)
    return value


def read(bootstrap: str, value: bytes) -> dict[int, int]:
    """Read a value from all partitions; return its timestamp (ms) for each."""
    found = [message for message in read_messages(bootstrap, TOPIC) if message.value() == value]
    return dict(sorted((message.partition(), message.timestamp()[1]) for message in found))
