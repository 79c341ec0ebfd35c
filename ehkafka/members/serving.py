"""In a member: hears what the supervisor asks, and answers.

One thread reads, and never waits for anything else: orders go on at once, and the socket's end, which is the
supervisor's, ends this process at once, whatever its handlers do. Another thread answers, since what is asked
may take time, and one more carries out what waits for the poll loop: a member that only waits must not look
as if it were hung. `ACTIONS` is what can be asked: a name and a function of plain values that returns plain
values.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ehkafka.errors import describe
from ehkafka.members.wire import packed, read_frame, unpacked

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from ehkafka.members.orders import Orders

# What a process ends with whose supervisor is gone; nobody is there to read it.
ORPHANED = 99
# What waits for the poll loop.
WAITS = frozenset({"act"})


class Serving:
    """A member's end of the socket. `start` after the boot was read."""

    def __init__(self, connection: socket.socket, orders: Orders) -> None:
        self._connection = connection
        self._orders = orders
        self._asked: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        # Replaced as a whole by the main thread, once the app is there.
        self.actions: Mapping[str, Callable[..., Any]] = {"status": lambda **_: {"state": "starting"}}
        # Several threads write: those that answer, and the main one with its notices.
        self._write_lock = threading.Lock()

    def start(self) -> None:
        """Start the threads."""
        threading.Thread(target=self._read, name="ehkafka-member", daemon=True).start()
        queues = {"ehkafka-member-answers": self._asked, "ehkafka-member-actions": self._waiting}
        for name, queue in queues.items():
            threading.Thread(target=self._answer, args=(queue,), name=name, daemon=True).start()

    def notify(self, notice: str, **more: Any) -> None:
        """Say what nobody has asked for."""
        self._send({"notice": notice, **more})

    def _read(self) -> None:
        while (body := read_frame(self._connection)) is not None:
            request = unpacked(body)
            if request["do"] in ("stop", "leave"):
                self._orders.take(request["do"], *request["with"]["how"])
                self._send({"id": request["id"], "answer": True})
            else:
                (self._waiting if request["do"] in WAITS else self._asked).put(request)
        os._exit(ORPHANED)

    def _answer(self, asked: SimpleQueue[dict[str, Any]]) -> None:
        while True:
            request = asked.get()
            action = self.actions.get(request["do"])
            answer: dict[str, Any] = {"id": request["id"]}
            if action is None:
                answer["error"] = f"this member knows no {request['do']!r}"
            else:
                try:
                    answer["answer"] = action(**request["with"])
                except Exception as error:  # the supervisor says it to whoever has asked
                    answer["error"] = describe(error)
            self._send(answer)

    def _send(self, message: dict[str, Any]) -> None:
        frame = packed(message)
        try:
            with self._write_lock:
                self._connection.sendall(frame)
        except OSError:
            os._exit(ORPHANED)
