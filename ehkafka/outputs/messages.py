"""The messages of `app.producer`: all that it was given and that have no answer yet, in their order.

Any thread adds, the sender settles. One lock, a leaf; futures are answered outside of it, on the sender's
thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.errors import NotDeliveredError
from ehkafka.outputs.unacknowledged import OUTPUT_BYTES_MAX, OUTPUTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where the broker has written a message."""

    topic: str
    partition: int
    offset: int


class Message:
    """One message. Whoever sends it writes it, then the sender's thread alone."""

    __slots__ = ("ends_s", "future", "headers", "key", "partition", "serial", "size", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Any,
        partition: int,
        size: int,
        ends_s: float,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = headers
        self.partition = partition
        self.size = size
        # When nobody tries any more (monotonic). All have the same time-out, so earlier ones end earlier.
        self.ends_s = ends_s
        self.serial = -1
        self.future: Future[Delivered] = Future()
        # So that `cancel` does nothing: what is on its way cannot be called back.
        self.future.set_running_or_notify_cancel()


class Messages:
    """Knows each message until its future is answered."""

    def __init__(self, messages_max: int = OUTPUTS_MAX, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._changed = threading.Condition(threading.Lock())
        # All under the lock. By serial number, so in the order of their making.
        self._messages: dict[int, Message] = {}
        self._serial = 0
        self._bytes = 0
        self._new: deque[Message] = deque()
        self._is_closed = False
        # The sender's: see `OutputBook`, which has the same two.
        self.wake: Callable[[], object] = lambda: None
        self.sleeps = False

    def has_room(self) -> bool:
        """Tell whether a message is taken without a wait."""
        return (len(self._messages) < self._messages_max and self._bytes < self._bytes_max) or self._is_closed

    def add(self, message: Message, *, waits: bool) -> None:
        """Take a message; waits for room if it may, until the message's time is over.

        Raises `NotDeliveredError` where there is none, and after `close`.
        """
        with self._changed:
            if waits:
                self._changed.wait_for(self.has_room, message.ends_s - time.monotonic())
            if self._is_closed:
                raise NotDeliveredError(f"A message to {message.topic!r} was not taken: the app has ended.")
            if not self.has_room():
                raise NotDeliveredError(
                    f"A message to {message.topic!r} was not taken: {len(self._messages)} messages with "
                    f"{self._bytes} bytes wait for the broker. Send again once some are answered; on a loop "
                    "`await app.producer.asend(…)` waits for room."
                )
            self._serial += 1
            message.serial = self._serial
            self._messages[message.serial] = message
            self._bytes += message.size
            self._new.append(message)
        if self.sleeps:
            self.wake()

    def has_new(self) -> bool:
        """Tell whether anything was added since it was taken."""
        return bool(self._new)

    def take_new(self) -> list[Message]:
        """Return what was added since. Sender only."""
        with self._changed:
            new = list(self._new)
            self._new.clear()
        return new

    def take_all(self) -> list[Message]:
        """Return all that have no answer, in their order, what is new as well. Sender only."""
        with self._changed:
            self._new.clear()
            return list(self._messages.values())

    def settle(self, message: Message, answer: Delivered | NotDeliveredError) -> None:
        """Answer a message's future, which runs what waits for it. Sender only, once for each."""
        with self._changed:
            del self._messages[message.serial]
            self._bytes -= message.size
        # Before whoever waits for all: they may look at the futures next.
        if isinstance(answer, Delivered):
            message.future.set_result(answer)
        else:
            message.future.set_exception(answer)
        with self._changed:
            self._changed.notify_all()

    def count(self) -> int:
        """Return how many have no answer."""
        return len(self._messages)

    def wait(self, timeout_s: float) -> int:
        """Wait until all that were added by now have their answer; return how many have none."""
        last = self._serial
        with self._changed:
            self._changed.wait_for(lambda: next(iter(self._messages), last + 1) > last, timeout_s)
            return sum(serial <= last for serial in self._messages)

    def close(self) -> None:
        """Take nothing any more; who waits for room is let go."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
