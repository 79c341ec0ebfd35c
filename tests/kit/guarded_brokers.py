"""Brokers in a process of their own, each behind a door that is shut for one client alone.

What the test's process does, or does not get to do, keeps no answer back: only a fault does.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import contextmanager
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, Any

from ehkafka.testing import EmbeddedBroker
from tests.kit.faults.tcp_link import Link
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

THE_APP = "the-app"


class AppLink(Link):
    """A connection that knows whether it is the app's; a fault holds it up, or ends it."""

    is_the_apps = False

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Let the app's requests through while there is no fault; others always."""
        self.is_the_apps |= THE_APP.encode() in data
        door: Any = self._proxy
        if self.is_the_apps and door.refuses:
            self.close()
        elif not (self.is_the_apps and door.swallows):
            yield data


class Door(TcpProxy):
    """Stands before one broker, and is shut for the app alone."""

    refuses = swallows = False

    def link(self, client: Any, server: Any) -> Link:
        """Make a link that tells the app from others."""
        return AppLink(self, client, server)


class GuardedBrokers:
    """Two brokers, each the leader of one partition of topic `t`; the first one coordinates group `g`."""

    def __init__(self) -> None:
        self._broker = EmbeddedBroker({"t": 2}, brokers=2).start()
        self._outside = self._broker.bootstrap
        self._doors = [Door(address).start() for address in self._outside.split(",")]
        for number, door in enumerate(self._doors):
            self._broker.advertise("127.0.0.1", door.port, number + 1)
            self._broker.move_leader("t", number, number + 1)
        self._broker.set_coordinator("g", 1)

    def outside(self) -> str:
        """Return where others reach the brokers."""
        return self._outside

    def bootstrap(self) -> str:
        """Return where the app reaches the first one: its door."""
        return self._doors[0].address

    def produce(self, records: int, key: bytes, partition: int) -> None:
        """Produce past any fault."""
        self._broker.produce("t", [(key, b"x")] * records, partition=partition)

    def committed(self) -> dict[int, int | None]:
        """Return the group's commits, by partition."""
        return self._broker.committed("g", "t")

    def refuse(self, *numbers: int) -> None:
        """Let no connection of the app's to these brokers be, old or new."""
        for number in numbers:
            self._doors[number].refuses = True
            self._doors[number].cut()

    def swallow(self, *numbers: int) -> None:
        """Let these brokers take the app's requests and never answer."""
        for number in numbers:
            self._doors[number].swallows = True

    def heal(self) -> None:
        """End all faults."""
        for door in self._doors:
            door.refuses = door.swallows = False

    def close(self) -> None:
        """End it."""
        for door in self._doors:
            door.stop()
        self._broker.close()


class _Manager(BaseManager):
    """The process."""


_Manager.register("brokers", GuardedBrokers)


@contextmanager
def other_process() -> Iterator[Callable[[], GuardedBrokers]]:
    """Start one, and yield what opens brokers in it; their methods may be called from any thread."""
    manager = _Manager(ctx=multiprocessing.get_context("spawn"))
    manager.start(_end_with_the_parent)
    try:
        yield manager.brokers  # type: ignore[attr-defined]
    finally:
        manager.shutdown()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
