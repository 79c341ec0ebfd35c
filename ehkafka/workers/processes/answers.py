"""A child's way back to its parent: whole frames, whoever writes them.

The main thread answers for its records; any thread of the user's may ask the app to stop, a signal's handler
in the middle of a frame among them. So whoever asks never waits: what cannot be written now is left to
whoever writes.
"""

from __future__ import annotations

import threading
from collections import deque

from ehkafka.workers.processes import pipe


class Answers:
    """Writes frames one after another."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        # Any thread appends; only who has the lock pops.
        self._left: deque[tuple[bytes, bytes]] = deque()

    def send(self, kind: bytes, body: bytes) -> None:
        """Write a frame; returns when the parent can read all of it. Main thread, outside of user code.

        Raises `OSError` when nobody is there to read it.
        """
        with self._lock:
            pipe.send(self._fd, kind, body)
        self._send_left()

    def ask(self, kind: bytes, body: bytes) -> None:
        """Have a frame written, now or right behind the one that is being written. Any thread."""
        self._left.append((kind, body))
        self._send_left()

    def _send_left(self) -> None:
        # Looked at again after letting go: what came while the lock was held is nobody else's.
        while self._left and self._lock.acquire(blocking=False):
            try:
                while self._left:
                    pipe.send(self._fd, *self._left.popleft())
            finally:
                self._lock.release()
