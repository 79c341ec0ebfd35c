"""The supervisor's end of the socket to one member: asks as a client of HTTP would, and hears the answers.

Each message is a line of JSON. A question is `{"id": …, "path": "/state", "body": {…}}`, its answer `{"id":
…, "status": 200, "body": {…}}`; what a member says unasked has a path and no id.

A caller, on any thread, has a future, and waits for it as long as it likes; the supervisor's main thread
alone reads (`pump`). Nothing blocks. So a member that reads nothing delays no other: what it is not given
piles up to a limit, and then its questions are refused.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ehkafka.http.plain import dumped, loaded

if TYPE_CHECKING:
    import socket

    from ehkafka.http.answers import Answer

# A snapshot of 10 000 partitions has some 5 MB; a longer line is none of ours.
LINE_BYTES_MAX: Final = 256 << 20
CHUNK_BYTES: Final = 1 << 16
UNSENT_BYTES_MAX: Final = 1 << 20
GONE: Final = "the member has ended"
STUCK: Final = "the member takes no requests"


def line(message: dict[str, Any]) -> bytes:
    """Return a message as a line."""
    return dumped(message) + b"\n"


class Lines:
    """Puts together what arrives in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Take a piece and return the messages that are whole now. Raises `ValueError` for what is none."""
        self._buffer += data
        if len(self._buffer) > LINE_BYTES_MAX:
            raise ValueError(f"a line of {len(self._buffer)} bytes")
        if b"\n" not in data:
            return []
        *lines, self._buffer = self._buffer.split(b"\n")
        try:
            found = [loaded(bytes(one)) for one in lines]
        except RecursionError:
            raise ValueError("a line of JSON that is nested too deep") from None
        if not all(isinstance(one, dict) for one in found):
            raise ValueError("a line of JSON that is not an object")
        return found


class Channel:
    """One member's socket, and who waits for what."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._lock = threading.Lock()
        # Under the lock: bytes that the socket has not taken yet, the answers by number, the last number.
        self._unsent = bytearray()
        self._waiting: dict[int, Future[Answer]] = {}
        self._last_id = 0
        self.is_closed = False
        # Main thread only.
        self._lines = Lines()
        # The member has closed its end: it has ended, or is about to.
        self.ended = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._connection.fileno()

    def ask(self, path: str, body: dict[str, Any]) -> Future[Answer]:
        """Ask for something; returns at once. Any thread. The future may have a `ConnectionError`."""
        answer: Future[Answer] = Future()
        with self._lock:
            if self.is_closed or len(self._unsent) > UNSENT_BYTES_MAX:
                answer.set_exception(ConnectionError(GONE if self.is_closed else STUCK))
                return answer
            self._last_id += 1
            self._waiting[self._last_id] = answer
        self.send(line({"id": self._last_id, "path": path, "body": body}))
        return answer

    def send(self, whole: bytes = b"") -> None:
        """Send a line, and what the socket did not take before; the rest is sent with what comes next."""
        with self._lock, suppress(OSError):  # full, or the member is gone, which its end tells
            self._unsent += whole
            while self._unsent:
                # A copy: what is sent is cut off the buffer, which must have no view on it then.
                del self._unsent[: self._connection.send(bytes(self._unsent[:CHUNK_BYTES]))]

    def pump(self) -> list[dict[str, Any]]:
        """Send and read what is possible now, hand answers over, and return what was said unasked.

        Raises `ValueError` for what no member of ours says.
        """
        self.send()
        unasked = []
        for message in self._read():
            with self._lock:
                answer = self._waiting.pop(message.get("id", 0), None)
            if answer is not None:
                answer.set_result((message["status"], message["body"]))
            elif "path" in message:
                unasked.append(message)
        return unasked

    def close(self) -> None:
        """Let go of the socket; each caller that waits hears that the member is gone."""
        with self._lock:
            self.is_closed = True
            waiting, self._waiting = self._waiting, {}
            self._unsent.clear()
            self._connection.close()
        for answer in waiting.values():
            answer.set_exception(ConnectionError(GONE))

    def _read(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        with suppress(BlockingIOError):
            while True:
                try:
                    part = self._connection.recv(CHUNK_BYTES)
                except ConnectionError:
                    part = b""
                if not part:
                    self.ended = True
                    break
                found += self._lines.feed(part)
        return found
