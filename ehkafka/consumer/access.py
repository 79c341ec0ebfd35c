"""Who is inside the consumer: one thread at a time, and no thread waits for that in confluent-kafka.

confluent-kafka lets one thread at a time into a consumer, and who waits for that may wait for ever while
another polls. So the polling thread says when it is inside, and a thread that wants to send a commit takes a
turn only while it is not.

Of several threads that poll, one is inside at a time, with all that is noted of what it returns; who closes
waits for it, and no other polls from then on: `door` and `closing`. confluent-kafka stands still there.

`poller` and `is_sending` keep these apart: each side sets its own first and looks at the other's second.
Knows no consumer and no commit. Any thread.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# confluent-kafka itself cuts longer waits into pieces of this length, to look for signals.
PIECE_S = 0.2
# So long a close waits for a call of another thread; a callback in there may wait for this very close.
CLOSE_WAIT_S = 5.0
# Once other threads commit: they get in between two pieces.
SHARED_PIECE_S = 0.02


class Access:
    """Who is inside one consumer. Its lock guards whatever goes with that."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        # Held by the thread that polls or closes, for the whole call: its callbacks come in again. Taken
        # before the lock.
        self.door = threading.RLock()
        # Which thread closes: no other one polls from then on. Set before the door is waited for.
        self.closing: int | None = None
        # By the polling thread, without the lock, and set before a look at `is_sending`.
        self.poller: int | None = None
        self.last_poller: int | None = None
        self.polls = 0
        # Under the lock, but for looks. Set before a look at `poller`.
        self.is_sending = False
        # Whether the polling thread has something to send when it comes by.
        self.is_wanted = False
        self.waiting_threads = 0
        # How long the polling thread may stay inside.
        self.piece_s = PIECE_S
        # The thread that closes the consumer: no other gets in from then on.
        self._closer: int | None = None

    def come_in(self, timeout: object) -> bool:
        """Wait for the thread that polls, and take the door; False: not in time; without a time-out for ever.

        Raises `RuntimeError` when another thread closes.
        """
        self.refuse_while_closing()
        limit_s = -1.0
        if isinstance(timeout, int | float) and timeout >= 0:
            limit_s = min(float(timeout), threading.TIMEOUT_MAX)
        if not self.door.acquire(timeout=limit_s):
            return False
        try:
            self.refuse_while_closing()
        except RuntimeError:
            self.door.release()
            raise
        return True

    def refuse_while_closing(self) -> None:
        """Raise `RuntimeError`, as confluent-kafka says it, when another thread closes."""
        if self.closing not in {None, threading.get_ident()}:
            raise RuntimeError("Consumer closed")

    def may_enter(self) -> bool:
        """Take the consumer for sending, unless another thread is inside. Caller has the lock."""
        me = threading.get_ident()
        if self.is_sending or self._closer not in {None, me}:
            return False
        self.is_sending = True
        if self.poller in {None, me}:
            return True
        self.is_sending = False
        self.changed.notify_all()  # a poller may have seen it
        return False

    @contextmanager
    def between_polls(self) -> Iterator[bool]:
        """Enter on the polling thread between two polls; False: another one sends, the next look will do."""
        before, self.poller = self.poller, threading.get_ident()
        try:
            yield not self.is_sending
        finally:
            self.poller = before
            if before is None and self.waiting_threads:
                self.poll_is_over()

    def wait_for_senders(self) -> None:
        """Wait, on the polling thread, until no other thread sends."""
        me = threading.get_ident()
        while self.is_sending:
            self.poller = None
            self.wait_until_unused()
            self.poller = me

    def wait_until_unused(self) -> None:
        """Wait until no thread sends."""
        with self.changed:
            while self.is_sending:
                self.changed.wait()

    def poll_is_over(self) -> None:
        """Let those in who wait while the polling thread is out."""
        with self.changed:
            self.changed.notify_all()

    def wants_in(self) -> None:
        """Another commit was asked for, by this thread. Raises `RuntimeError` once another thread closes."""
        me = threading.get_ident()
        if self._closer not in {None, me}:
            raise RuntimeError("Consumer closed")
        if self.last_poller not in {None, me}:
            self.piece_s = SHARED_PIECE_S

    def close(self) -> None:
        """Let no thread in but this one. Caller has the lock."""
        self._closer = threading.get_ident()
        self.changed.notify_all()

    def leave_to(self, thread_id: int | None) -> None:
        """Another thread continues to close it: every call of the program is refused from now on."""
        with self.lock:
            self.closing = self._closer = thread_id
