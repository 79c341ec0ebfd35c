"""A Kafka cluster (KRaft) of three nodes on this machine; each node and each connection can be made to fail.

Responsible for its life, for topics with replicas, and for faults: a node killed, frozen, slow, or cut off, a
client cut off from one node, leaders moved. Needs Python only, as `KafkaBroker` does. Everything is on
127.0.0.1. One thread owns it; its nodes are processes of their own and die with their owner.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.kafka import broker
from ehkafka.testing.kafka.admin import KafkaAdmin
from ehkafka.testing.kafka.jars import kafka_jars
from ehkafka.testing.kafka.java import find_java
from tests.kit.cluster.node import ANSWER_TIMEOUT_S, START_TIMEOUT_S, Node, PortTakenError
from tests.kit.cluster.requests import led_quorum_epoch
from tests.kit.cluster.routes import DIRECT, Routes
from tests.kit.cluster.settings import QUICK, REPLICAS, replication

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

PORT_ATTEMPTS: Final = 3
CONTROLLER_TIMEOUT_S: Final = 15.0
POLL_S: Final = 0.05


class KafkaCluster(KafkaAdmin):
    """A cluster in a context manager.

    ```python
    with KafkaCluster(clients=("app",)) as cluster:
        cluster.create_topic("orders", 4)
        consume(cluster.bootstrap_for("app"))
        cluster.cut("app", cluster.nodes[0])
    ```

    Each of `clients` has its own way to each node. `properties` go into each server.properties and win.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        clients: Sequence[str] = (),
        properties: Mapping[str, str | int] | None = None,
        seed: int = 1,
    ) -> None:
        if nodes < 1:
            raise ConfigurationError(f"nodes={nodes}: a cluster has at least one")
        self.replicas = min(REPLICAS, nodes)
        self.nodes: tuple[Node, ...] = ()
        self._numbers = range(1, nodes + 1)
        self._routes = Routes(self._numbers, clients, seed)
        self._properties = replication(nodes) | QUICK | dict(properties or {})

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """All nodes without proxies: for what is no party to a fault."""
        return self.bootstrap_for(DIRECT)

    def bootstrap_for(self, client: str) -> str:
        """All nodes, each through this client's own proxy; it never learns another address."""
        if client not in (DIRECT, *self._routes.clients):
            raise ConfigurationError(f"No client {client!r}; there are {', '.join(self._routes.clients)}")
        return ",".join(self._routes.address(client, number) for number in self._numbers)

    def start(self) -> Self:
        """Start all nodes at once and return when each is a member and answers."""
        if self.nodes:
            raise ConfigurationError("The cluster was started already")
        flags = broker.JAVA_FLAGS["test"]
        java = [str(find_java()), *flags, "-cp", ":".join(map(str, kafka_jars()))]
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            try:
                self._start(java)
            except BaseException as error:
                self.stop()
                if attempts_left and isinstance(error, PortTakenError):
                    continue
                raise
            break
        return self

    def stop(self) -> None:
        """End all nodes and remove their data. Does nothing when they are not there."""
        for node in self.nodes:
            node.remove()
        self.nodes = ()
        self._routes.close()
        self._admin_client = None

    def controller(self) -> Node:
        """Return the node whose controller is the active one, by the newest epoch of those that answer."""
        deadline_s = time.monotonic() + CONTROLLER_TIMEOUT_S
        while time.monotonic() < deadline_s:
            epochs = [
                (epoch, node.number) for node in self.nodes if (epoch := self._led_epoch(node)) is not None
            ]
            if epochs:
                return self.nodes[max(epochs)[1] - 1]
            time.sleep(POLL_S)
        raise EndpointError(f"No node has led the quorum for {CONTROLLER_TIMEOUT_S:g} s")

    def wait_until_in_sync(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until each node knows all nodes, and each partition has a leader and all replicas in sync."""
        deadline_s = time.monotonic() + timeout_s
        while complaint := self._out_of_sync():
            if time.monotonic() > deadline_s:
                raise EndpointError(f"After {timeout_s:g} s {complaint}")
            time.sleep(POLL_S)

    def _start(self, java: Sequence[str]) -> None:
        self._routes.open()
        for number in self._numbers:
            properties = self._routes.properties(number) | self._properties
            address = self._routes.address(DIRECT, number)
            node = Node(number, address, java, properties, self._forget_admin)
            self.nodes = (*self.nodes, node)
            node.format(self.nodes[0] if number > 1 else None)
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_until_up(START_TIMEOUT_S)
        self.wait_until_in_sync()

    def _forget_admin(self) -> None:
        # A client that saw a coordinator go waits for it until its requests time out.
        self._admin_client = None

    def _led_epoch(self, node: Node) -> int | None:
        if not node.answers:
            return None
        try:
            return led_quorum_epoch(self._routes.own_quorum_address(node.number), ANSWER_TIMEOUT_S)
        except OSError:
            return None  # it starts or ends

    def _out_of_sync(self) -> str:
        """Return what is not in sync as some node sees it, nothing if all is."""
        for node in self.nodes:
            try:
                state = node.state()
            except OSError as error:
                return f"{node} does not answer: {error}"
            if missing := set(self._numbers) - state.nodes:
                return f"{node} misses the nodes {sorted(missing)}"
            for (topic, number), partition in state.partitions.items():
                if partition.leader < 0 or set(partition.in_sync) != set(partition.replicas):
                    return f"{node} says of {topic}/{number}: {partition}"
        return ""
