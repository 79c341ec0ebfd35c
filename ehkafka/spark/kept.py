"""Clients that a worker process keeps between tasks, one for each configuration.

Spark uses its Python workers again, one task at a time; to connect anew for each task would cost more than
many a task. A client is taken out while it is used, so a task that was killed in the middle cannot spoil
the next task's. Never shared over a fork. On the task's thread.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Client = TypeVar("_Client")

IDLE_MAX: Final = 8
"""How many of a kind a process keeps, for queries that take turns in it; the longest idle one goes."""


class KeptClients(Generic[_Client]):
    """The clients of one kind that no task uses."""

    def __init__(self, close: Callable[[_Client], object]) -> None:
        self._close = close
        # The longest idle one first.
        self._idle: dict[object, _Client] = {}

    @contextmanager
    def used(
        self, key: object, make: Callable[[], _Client], *, is_current: Callable[[_Client], bool] = bool
    ) -> Iterator[_Client]:
        """Hand out the client of this key, a new one unless there is one that is current.

        It comes back afterwards, and is closed if the task failed: whatever state it is in, the next task
        gets another one.
        """
        client = self.take(key, make, is_current=is_current)
        try:
            yield client
        except BaseException:
            self._close(client)
            raise
        self.give_back(key, client)

    def take(
        self, key: object, make: Callable[[], _Client], *, is_current: Callable[[_Client], bool] = bool
    ) -> _Client:
        """Return the client of this key; it comes back by `give_back`, or its user closes it."""
        client = self._idle.pop((os.getpid(), key), None)
        if client is not None and not is_current(client):
            self._close(client)
            client = None
        return make() if client is None else client

    def give_back(self, key: object, client: _Client) -> None:
        """Keep a client for the next task; close it where there is one, or the longest idle one for it."""
        if self._idle.setdefault((os.getpid(), key), client) is not client:
            self._close(client)
        while len(self._idle) > IDLE_MAX:
            self._close(self._idle.pop(next(iter(self._idle))))

    def close(self) -> None:
        """Close all of them."""
        while self._idle:
            self._close(self._idle.popitem()[1])
