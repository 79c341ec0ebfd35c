"""In a member: answers its supervisor at `/state` and `/actions`, as an app with HTTP does.

One thread reads, and never waits for anything else: orders go on at once, and the socket's end, which is the
supervisor's, ends this process at once, whatever its handlers do. Another thread answers, since what is asked
may take time, and one more carries out what waits for the poll loop: a member that only waits must not look
as if it were hung. `channel` is the other end, and says what goes through.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from ehkafka.errors import describe
from ehkafka.http.plain import loaded
from ehkafka.members.channel import LINE_BYTES_MAX, line
from ehkafka.wording import ended

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from ehkafka.http.answers import Answer
    from ehkafka.members.orders import Order, Orders

# What a process ends with whose supervisor is gone; no process is there to read it.
ORPHANED: Final = 99
ORDERS: Final[Mapping[str, Order]] = {"/stop": "stop", "/leave": "leave"}
# What waits for the poll loop.
WAITS: Final = frozenset({"/actions"})


class Serving:
    """A member's end of the socket. `start` after the boot was read."""

    def __init__(self, connection: socket.socket, orders: Orders) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._orders = orders
        self._asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        # By path. Replaced as a whole by the main thread, once the app is there.
        self.routes: Mapping[str, Callable[[dict[str, Any]], Answer]] = {}
        # Several threads write: those that answer, and the main one, unasked.
        self._write_lock = threading.Lock()

    def start(self) -> None:
        """Start the threads."""
        threading.Thread(target=self._read, name="ehkafka-member", daemon=True).start()
        queues = {"ehkafka-member-answers": self._asked, "ehkafka-member-actions": self._waiting}
        for name, queue in queues.items():
            threading.Thread(target=self._answer, args=(queue,), name=name, daemon=True).start()

    def read_line(self) -> bytes:
        """Wait for a line; the end of the socket is this process's."""
        try:
            found = self._lines.readline(LINE_BYTES_MAX)
        except OSError:  # the supervisor was killed with something of ours unread
            found = b""
        if not found.endswith(b"\n"):
            os._exit(ORPHANED)
        return found

    def notify(self, path: str, body: dict[str, Any]) -> None:
        """Say what the supervisor has not asked for."""
        self._send({"path": path, "body": body})

    def _read(self) -> None:
        while True:
            asked = loaded(self.read_line())
            if (order := ORDERS.get(asked["path"])) is not None:
                self._orders.take(order, *asked["body"]["how"])
                self._send({"id": asked["id"], "status": 200, "body": {}})
            else:
                (self._waiting if asked["path"] in WAITS else self._asked).put(asked)

    def _answer(self, queue: SimpleQueue[dict[str, Any]]) -> None:
        while True:
            asked = queue.get()
            try:
                status, body = self.routes.get(asked["path"], _starting)(asked["body"])
            except Exception as error:  # the supervisor passes it on
                why = (
                    f"The action may or may not have been done: {ended(describe(error))} Check "
                    f"its effect before you repeat the action."
                )
                status, body = 500, {"reason": "busy", "text": why, "names": []}
            self._send({"id": asked["id"], "status": status, "body": body})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            with self._write_lock:
                self._connection.sendall(line(message))
        except OSError:
            os._exit(ORPHANED)


def _starting(_body: dict[str, Any]) -> Answer:
    return 503, {"reason": "stopped", "text": "Nothing was done: the app is starting.", "names": []}
