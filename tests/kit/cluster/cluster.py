"""A Kafka cluster (KRaft) of three nodes on this machine; each node and each connection can be made to fail.

Responsible for its life, for topics with replicas, and for faults: a node killed, frozen, slow, or cut off, a
client cut off from one node, leaders moved. Needs Python only, as `KafkaBroker` does. Everything is on
127.0.0.1. One thread owns it; its nodes are processes of their own and die with their owner.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, Self

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.kafka import broker
from ehkafka.testing.kafka.admin import KafkaAdmin
from ehkafka.testing.kafka.jars import kafka_jars
from ehkafka.testing.kafka.java import find_java
from tests.kit.broker_classes import brokers_with_classes
from tests.kit.cluster.node import ANSWER_TIMEOUT_S, START_TIMEOUT_S, Node, PortTakenError, formatted
from tests.kit.cluster.requests import elect_preferred, led_quorum_epoch, order_replicas
from tests.kit.cluster.routes import DIRECT, Routes
from tests.kit.cluster.settings import QUICK, REPLICAS, replication
from tests.kit.cluster.stepped_clock import CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

PORT_ATTEMPTS: Final = 3
CONTROLLER_TIMEOUT_S: Final = 15.0
MOVE_TIMEOUT_S: Final = 10.0
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
    `seed` decides the draws of the proxies and of `move_leaders`. `clocks` allows `step_clock`; the nodes
    then start without the classes that `broker_classes` keeps.
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        clients: Sequence[str] = (),
        properties: Mapping[str, str | int] | None = None,
        seed: int = 1,
        clocks: bool = False,
    ) -> None:
        if nodes < 1:
            raise ConfigurationError(f"nodes={nodes}: a cluster has at least one")
        self.replicas = min(REPLICAS, nodes)
        self.nodes: tuple[Node, ...] = ()
        self._numbers = range(1, nodes + 1)
        self._routes = Routes(self._numbers, clients, seed)
        self._random = random.Random(seed)
        self._clocks = clocks
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
        with brokers_with_classes():  # in a script, where no fixture has seen to it
            flags = broker.JAVA_FLAGS["test"]
        java = (str(find_java()), *flags, "-cp")
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            try:
                self._start(java, kafka_jars())
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

    def move_leaders(self, topics: Sequence[str]) -> int:
        """Let another replica in sync lead each partition of these topics; return how many leaders moved.

        For clients, their next requests to the old leaders are refused. Internal topics are taken, too: a
        move of `__consumer_offsets` or `__transaction_state` moves coordinators.
        """
        deadline_s = time.monotonic() + MOVE_TIMEOUT_S
        node = self.controller()
        before = {name: state for name, state in node.state().partitions.items() if name[0] in topics}
        orders = {}
        for name, state in before.items():
            if others := [replica for replica in state.in_sync if replica != state.leader]:
                first = self._random.choice(others)
                orders[name] = [first, *(replica for replica in state.replicas if replica != first)]
        if not orders:
            return 0
        order_replicas(node.address, orders, MOVE_TIMEOUT_S)
        elect_preferred(node.address, orders, MOVE_TIMEOUT_S)
        while True:
            after = node.state().partitions
            moved = sum(name in after and after[name].leader == order[0] for name, order in orders.items())
            if moved == len(orders) or time.monotonic() > deadline_s:
                return moved
            time.sleep(POLL_S)

    def cut(self, client: str, node: Node) -> None:
        """Let nothing pass between one client and one node; their connections stay open (a black hole)."""
        self._routes.cut(self._routes.between(client, node.number))

    def cut_off(self, node: Node) -> None:
        """Let nothing pass between a node and the other nodes; clients still reach it.

        It falls out of sync, and loses its leaderships and its part in the quorum. It does not learn of that:
        it names itself as a leader to clients that ask it, and what they send it has no answer for as long as
        their requests wait.
        """
        if len(self.nodes) == 1:
            raise ConfigurationError(f"{node} is the only node: nothing is there to cut it off from")
        self._routes.cut(self._routes.among_nodes(node.number))

    def slow(self, node: Node, delay_s: float) -> None:
        """Delay all that passes between a node and clients or other nodes, in either direction.

        A node whose answers take longer than 2 s falls out of sync.
        """
        routes = self._routes
        routes.slow(routes.between(None, node.number) + routes.among_nodes(node.number), delay_s)

    def heal(self, client: str | None = None, node: Node | None = None) -> None:
        """Undo `cut`, `cut_off` and `slow`: all of them, or those of a client, or of a node, or of both."""
        number = node.number if node else None
        ways = self._routes.between(client, number)
        self._routes.heal(ways if client else ways + self._routes.among_nodes(number))

    def step_clock(self, node: Node, by_s: float) -> None:
        """Move a node's time of day by so much; no other process's moves. Needs `clocks=True`.

        A step back by more than 5 s restarts the node, which `Node.step_clock` explains.
        """
        node.step_clock(by_s)

    def wait_until_in_sync(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until each node knows all nodes, and each partition has a leader and all replicas in sync."""
        deadline_s = time.monotonic() + timeout_s
        while complaint := self._out_of_sync():
            if time.monotonic() > deadline_s:
                raise EndpointError(f"After {timeout_s:g} s {complaint}")
            time.sleep(POLL_S)

    def _start(self, java: tuple[str, ...], jars: Sequence[Path]) -> None:
        class_path = ":".join(map(str, jars))
        storage = formatted((*java, class_path))
        nodes_java = (*java, f"{CLASSES}:{class_path}" if self._clocks else class_path)
        self._routes.open()
        for number in self._numbers:
            properties = self._routes.properties(number) | self._properties
            address = self._routes.address(DIRECT, number)
            stepped_from = jars if self._clocks else None
            node = Node(number, address, nodes_java, properties, self._forget_admin, stepped_from)
            self.nodes = (*self.nodes, node)
            node.write(*storage)
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
