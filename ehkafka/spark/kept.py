"""Clients that a worker process keeps between tasks, one for each configuration.

Spark uses its Python workers again, one task at a time; to connect anew for each task would cost more than
many a task. A client is taken out while it is used, so a task that was killed in the middle cannot spoil
the next task's. Never shared over a fork. On the task's thread.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Client = TypeVar("_Client")


class KeptClients(Generic[_Client]):
    """The clients of one kind that no task uses."""

    def __init__(self, close: Callable[[_Client], object]) -> None:
        self._close = close
        self._idle: dict[object, _Client] = {}

    @contextmanager
    def used(
        self, key: object, make: Callable[[], _Client], *, is_current: Callable[[_Client], bool] = bool
    ) -> Iterator[_Client]:
        """Hand out the client of this key, a new one unless there is one that is current.

        It comes back afterwards, and is closed if the task failed: whatever state it is in, the next task
        gets another one.
        """
        of_process = (os.getpid(), key)
        client = self._idle.pop(of_process, None)
        if client is not None and not is_current(client):
            self._close(client)
            client = None
        if client is None:
            client = make()
        try:
            yield client
        except BaseException:
            self._close(client)
            raise
        if self._idle.setdefault(of_process, client) is not client:
            self._close(client)

    def close(self) -> None:
        """Close all of them."""
        while self._idle:
            self._close(self._idle.popitem()[1])
