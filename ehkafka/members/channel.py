"""The supervisor's end of the socket to one member: asks, and hears answers and notices.

Whoever asks, on any thread, puts the question down and waits for the `Answer` as long as it likes; the
supervisor's main thread alone writes and reads (`pump`), never blocking. So a member that reads nothing
delays nobody else: what it is not given piles up to a limit, and then its questions are refused.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ehkafka.members.wire import CHUNK_BYTES, Frames, packed, unpacked

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

UNSENT_BYTES_MAX: Final = 1 << 20
GONE: Final = "the member has ended"
STUCK: Final = "the member takes no requests"


class Answer:
    """What a member says to one request, once it does."""

    def __init__(self) -> None:
        self._done = threading.Event()
        # Written once, before the event is set.
        self.value: Any = None
        self.error: str | None = None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the answer or its failure; False when the time was over first."""
        return self._done.wait(max(0.0, timeout_s))

    @property
    def is_there(self) -> bool:
        """Whether `value`, or `error`, is what the member said."""
        return self._done.is_set()

    def give(self, value: Any, error: str | None = None) -> None:
        """Take what the member says."""
        self.value, self.error = value, error
        self._done.set()


class Channel:
    """One member's socket, and who waits for what."""

    def __init__(self, connection: socket.socket, *, wake: Callable[[], None]) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._wake = wake
        self._lock = threading.Lock()
        # Under the lock: bytes that the socket has not taken yet, who waits by number, the last number.
        self._unsent = bytearray()
        self._waiting: dict[int, Answer] = {}
        self._last_id = 0
        self.is_closed = False
        # Main thread only.
        self._frames = Frames()
        # The member has closed its end: it has ended, or is about to.
        self.ended = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._connection.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether the socket is to be watched for room."""
        return bool(self._unsent)

    def ask(self, action: str, /, **arguments: Any) -> Answer:
        """Ask for something; returns at once. Any thread."""
        answer = Answer()
        with self._lock:
            problem = GONE if self.is_closed else STUCK if len(self._unsent) > UNSENT_BYTES_MAX else None
            if problem is None:
                self._last_id += 1
                self._waiting[self._last_id] = answer
                self._unsent += packed({"id": self._last_id, "do": action, "with": arguments})
        if problem is not None:
            answer.give(None, problem)
        else:
            self._wake()
        return answer

    def send(self, frame: bytes) -> None:
        """Put a whole frame on its way. Before anything is asked."""
        with self._lock:
            self._unsent += frame

    def pump(self) -> list[dict[str, Any]]:
        """Write and read what is possible now, hand answers over, and return the notices."""
        self._write()
        notices = []
        for body in self._read():
            message = unpacked(body)
            if "notice" in message:
                notices.append(message)
                continue
            with self._lock:
                answer = self._waiting.pop(message["id"], None)
            if answer is not None:
                answer.give(message.get("answer"), message.get("error"))
        return notices

    def close(self) -> None:
        """Let go of the socket; whoever still waits hears that the member is gone."""
        with self._lock:
            self.is_closed = True
            waiting, self._waiting = self._waiting, {}
            self._unsent.clear()
        self._connection.close()
        for answer in waiting.values():
            answer.give(None, GONE)

    def _write(self) -> None:
        with self._lock, suppress(OSError):  # full, or the member is gone, which its end tells
            while self._unsent:
                # A copy: what is sent is cut off the buffer, which must have no view on it then.
                del self._unsent[: self._connection.send(bytes(self._unsent[:CHUNK_BYTES]))]

    def _read(self) -> list[bytes]:
        found: list[bytes] = []
        with suppress(BlockingIOError):
            while True:
                try:
                    part = self._connection.recv(CHUNK_BYTES)
                except ConnectionError:
                    part = b""
                if not part:
                    self.ended = True
                    break
                found += self._frames.feed(part)
        return found
