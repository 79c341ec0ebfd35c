"""The listeners of a cluster's nodes, and the proxies through which they are reached.

A listener belongs to one client: a program with a name, or a node as a client of the other nodes (for what
it replicates, and for the controllers' quorum). Every node has every listener, and advertises each at that
client's own proxy: what is done to the proxy happens between these two alone. A node reaches itself without
a proxy.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError
from ehkafka.testing.kafka.properties import HOST
from ehkafka.testing.ports import free_ports
from tests.kit.faults.network import CALM
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Of the owner of the cluster: tests look at a node as it is, whatever the network does.
DIRECT: Final = "direct"
TAKEN: Final = re.compile(rf"{DIRECT}|controller|(peer|quorum)\d+")


class Routes:
    """The ports of all nodes and the proxies before them. One thread owns it."""

    def __init__(self, numbers: Sequence[int], clients: Sequence[str], seed: int) -> None:
        for client in clients:
            if TAKEN.fullmatch(client) or not (client.isidentifier() and client.islower()):
                raise ConfigurationError(
                    f"{client!r} cannot name a client: use a lower-case word of your own"
                )
        self.numbers = tuple(numbers)
        self.clients = tuple(clients)
        self._seed = seed
        self._ports: dict[tuple[str, int], int] = {}
        self._proxies: dict[tuple[str, int], TcpProxy] = {}
        self._open = ExitStack()

    def open(self) -> None:
        """Choose free ports, and let the proxies listen."""
        names = [DIRECT, *self.clients, *map(_peer, self.numbers), *map(_quorum, self.numbers)]
        ways = [(name, number) for name in names for number in self.numbers]
        self._ports = dict(zip(ways, free_ports(len(ways)), strict=True))
        for at, (name, number) in enumerate(ways):
            if name not in (DIRECT, _peer(number), _quorum(number)):
                proxy = TcpProxy(f"{HOST}:{self._ports[name, number]}", seed=self._seed + at)
                self._proxies[name, number] = self._open.enter_context(proxy)

    def close(self) -> None:
        """Close the proxies with all connections."""
        self._open.close()
        self._proxies.clear()
        self._ports.clear()

    def properties(self, number: int) -> dict[str, str | int]:
        """Return what a node's server.properties say about listeners."""
        # The first name is the one by which this node reaches the other controllers.
        quorum = [_quorum(number), *(_quorum(other) for other in self.numbers if other != number)]
        others = [DIRECT, *self.clients, *map(_peer, self.numbers)]
        names = [*others, *quorum]
        return {
            "node.id": number,
            "controller.quorum.voters": ",".join(
                f"{voter}@{self.address(_quorum(number), voter)}" for voter in self.numbers
            ),
            "controller.listener.names": ",".join(map(str.upper, quorum)),
            "inter.broker.listener.name": _peer(number).upper(),
            "listeners": ",".join(f"{name.upper()}://{HOST}:{self._ports[name, number]}" for name in names),
            "advertised.listeners": ",".join(
                f"{name.upper()}://{self.address(name, number)}" for name in names
            ),
            "listener.security.protocol.map": ",".join(f"{name.upper()}:PLAINTEXT" for name in names),
        }

    def address(self, listener: str, number: int) -> str:
        """Return `host:port` at which a node is reached by a listener's client."""
        proxy = self._proxies.get((listener, number))
        return proxy.address if proxy else f"{HOST}:{self._ports[listener, number]}"

    def own_quorum_address(self, number: int) -> str:
        """Return where a node's controller listens without a proxy."""
        return self.address(_quorum(number), number)

    def cut(self, ways: Iterable[TcpProxy]) -> None:
        """Let nothing through any more, and close nothing."""
        for proxy in ways:
            proxy.network = replace(proxy.network, black_hole=True)

    def slow(self, ways: Iterable[TcpProxy], delay_s: float) -> None:
        """Delay each piece of data in either direction."""
        for proxy in ways:
            proxy.network = replace(proxy.network, latency_s=(delay_s, delay_s))

    def heal(self, ways: Iterable[TcpProxy]) -> None:
        """Make them good again; what was held up arrives now."""
        for proxy in ways:
            proxy.network = CALM

    def between(self, client: str | None, number: int | None) -> list[TcpProxy]:
        """Return the proxies from a program to a node; `None` stands for all of them."""
        if client is not None and client not in self.clients:
            raise ConfigurationError(f"No client {client!r}; there are {', '.join(self.clients) or 'none'}")
        wanted = self.clients if client is None else (client,)
        return [p for (name, n), p in self._proxies.items() if name in wanted and number in (None, n)]

    def among_nodes(self, number: int | None) -> list[TcpProxy]:
        """Return the proxies from a node to the others and back; `None` stands for all nodes'."""
        own = {_peer(number), _quorum(number)} if number is not None else set()
        return [
            proxy
            for (name, n), proxy in self._proxies.items()
            if name not in self.clients and (number in (None, n) or name in own)
        ]


def _peer(number: int) -> str:
    return f"peer{number}"


def _quorum(number: int) -> str:
    return f"quorum{number}"
