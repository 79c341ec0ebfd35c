"""A cluster of three nodes does what a fault is meant to do, as clients and the other nodes see it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from ehkafka.embedded.topics import produce
from ehkafka.errors import ConfigurationError
from tests.kit.brokers import running
from tests.kit.cluster.cluster import KafkaCluster
from tests.kit.cluster.requests import PartitionState, cluster_state
from tests.kit.topic_read import read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker

TOPIC = "orders"
PARTITIONS = 6
HOUR_S = 3600.0
NODES_TIME = {"message.timestamp.type": "LogAppendTime"}


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
