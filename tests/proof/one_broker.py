"""One broker behind the methods of a cluster, and before it a proxy that can cut and forget its clients."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.answering_proxy import AnsweringProxy
from tests.kit.cluster.kept_topics import copy_topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class OneNode:
    """The only node."""

    number = 1

    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.kill, self.restart = broker.kill, broker.restart
        self.suspend, self.resume = broker.suspend, broker.resume
        self.log_tail = broker.log_tail
        self.copy_topics = lambda target: copy_topics(broker._there(), target)

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._broker.is_running


class OneBroker:
    """Starts and ends with its block."""

    def __init__(self, properties: Mapping[str, str | int]) -> None:
        self.proxy = AnsweringProxy()
        self._properties = properties
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        proxy = self._stack.enter_context(self.proxy)
        listeners = {"far": Listener(advertised_port=proxy.port)}
        broker = KafkaBroker(properties=self._properties, listeners=listeners)
        self._broker = self._stack.enter_context(broker)
        proxy.forward_to(broker.bootstrap_for("far"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """Its direct address."""
        return self._broker.bootstrap

    def bootstrap_for(self, _client: str) -> str:
        """Return the proxy's address."""
        return self.proxy.address

    @property
    def nodes(self) -> Sequence[OneNode]:
        """The only node."""
        return [OneNode(self._broker)]

    def create_topic(self, name: str, partitions: int, config: dict[str, str] | None = None) -> None:
        """Make a topic."""
        self._broker.create_topic(name, partitions, config or {})

    def wait_until_in_sync(self, _timeout_s: float) -> None:
        """Return: there is nothing to be in sync with."""
