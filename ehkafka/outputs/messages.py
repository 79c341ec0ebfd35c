"""The messages that `app.producer` was given and that have no answer yet, in order.

Any thread adds and waits. The thread of `own_producer` sends, and answers each future once. One lock, a leaf:
futures are answered without it.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.errors import NotDeliveredError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ehkafka.outputs.output import Output

MESSAGES_MAX: Final = 50_000
MESSAGE_BYTES_MAX: Final = 64 * 1_048_576


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where the broker has written a message."""

    topic: str
    partition: int
    offset: int


@dataclass(eq=False, slots=True)
class Message:
    """One message and its future."""

    output: Output
    size: int
    # When it times out (monotonic). All have the same time-out, so earlier messages time out earlier.
    ends_s: float
    future: Future[Delivered]
    serial: int = -1

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return self.output.topic


class Messages:
    """Holds each message until its future is answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added = threading.Condition(self._lock)
        self._left = threading.Condition(self._lock)
        # All under the lock. By serial number, so in the order in which they were sent.
        self._unanswered: dict[int, Message] = {}
        self._last = 0
        self._is_closed = False
        # A message frees its room before its future is answered: a callback of the future may send the next.
        self._count = 0
        self._bytes = 0
        # Sender only: messages whose futures are answered. They are removed after the futures' callbacks have
        # returned, so that `wait` covers the callbacks, too.
        self._answered: list[Message] = []
        # Messages that the client does not have yet. Any thread appends, under the lock; the sender removes.
        self.queue: deque[Message] = deque()

    def count(self) -> int:
        """Return how many messages have no answer."""
        return self._count

    def has_room(self) -> bool:
        """Tell whether `add` would return or raise at once."""
        return (self._count < MESSAGES_MAX and self._bytes < MESSAGE_BYTES_MAX) or self._is_closed

    def add(self, message: Message, wait_s: float) -> bool:
        """Add a message; False: no room within `wait_s`. Raises `NotDeliveredError` after `close`."""
        with self._lock:
            if not (self.has_room() or self._left.wait_for(self.has_room, wait_s)):
                return False
            if self._is_closed:
                raise NotDeliveredError(f"A message to {message.topic!r} was not sent: the app has ended.")
            self._last += 1
            message.serial = self._last
            self._unanswered[message.serial] = message
            self._count += 1
            self._bytes += message.size
            self.queue.append(message)
            self._added.notify()
        return True

    def no_room(self, topic: str) -> NotDeliveredError:
        """Return the error for a message that found no room."""
        return NotDeliveredError(
            f"A message to {topic!r} was not sent: {self._count} messages with {self._bytes} bytes wait for "
            "the broker. Send it again later; on an event loop `await app.producer.asend(…)` waits."
        )

    def wait(self, timeout_s: float) -> int:
        """Wait until all messages added by now are answered; return how many are not."""
        with self._lock:
            last = self._last
            self._left.wait_for(lambda: next(iter(self._unanswered), last + 1) > last, timeout_s)
            return sum(serial <= last for serial in self._unanswered)

    def close(self) -> None:
        """Take no more messages, and wake the threads that wait for room."""
        with self._lock:
            self._is_closed = True
            self._added.notify()
            self._left.notify_all()

    def rest(self, timeout_s: float) -> None:
        """Wait until there is a message without an answer, or `close` was called. Sender only."""
        with self._lock:
            self._added.wait_for(lambda: self._count or self._is_closed, timeout_s)

    def answer(self, message: Message, result: Delivered | NotDeliveredError) -> None:
        """Answer a message's future, which runs its callbacks. Sender only, once for each message."""
        self._answered.append(message)
        with self._lock:
            self._count -= 1
            self._bytes -= message.size
        if isinstance(result, Delivered):
            message.future.set_result(result)
        else:
            message.future.set_exception(result)

    def release(self) -> None:
        """Remove answered messages, and wake threads that wait for room or in `wait`. Sender only."""
        if self._answered:
            with self._lock:
                for message in self._answered:
                    del self._unanswered[message.serial]
                self._left.notify_all()
            self._answered.clear()

    def take_back(self) -> None:
        """Queue all messages without an answer again, in their order. Sender only."""
        self.release()
        with self._lock:
            self.queue = deque(self._unanswered.values())
