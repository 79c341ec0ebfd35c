"""What is done by hand while the app runs: calls that the poll thread makes for another thread.

Inboxes and the client are the poll thread's to command. A caller that wants something done leaves a function
here and waits until a turn of the loop has run it: between two looks at the client, before what it brought is
handed on and before a commit, so that nothing is seen half done.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.errors import ActionRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.records import TopicPartition


class _Call:
    """One function, which runs once or, given up in time, never."""

    __slots__ = ("_claimed", "done", "error", "function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._claimed = threading.Lock()

    def claim(self) -> bool:
        """Be the one who runs it, or gives it up. False for whoever comes second."""
        return self._claimed.acquire(blocking=False)

    def refuse(self, error: ActionRefusedError) -> None:
        """Raise that where it was asked for, unless it was given up."""
        if self.claim():
            self.error = error
            self.done.set()

    def run(self) -> None:
        """Run it, unless it was given up."""
        if not self.claim():
            return
        try:
            self.result = self.function()
        except Exception as error:  # raised where it was asked for
            self.error = error
        finally:
            self.done.set()


class ByHand:
    """Calls for the poll thread, and the partitions that somebody has paused."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        # Any thread appends; the poll thread takes.
        self._calls: deque[_Call] = deque()
        self._thread: int | None = None
        # Set once, by the poll thread, when no turn comes any more. Set before what waits is refused; whoever
        # asks leaves its call first and reads this second, so that nobody waits for nothing.
        self._is_closed = False
        # Runs in each turn with calls or new epochs, and in each slow look: ends pauses whose time is
        # over. Set once, before the thread starts.
        self.then: Callable[[], None] = lambda: None
        # A new epoch may have to take over what is paused.
        self._is_due = False
        # Partitions whose pause is to reach the client in this turn. Poll thread only.
        self._to_pause: list[TopicPartition] = []

    def call(self, function: Callable[[], Any], timeout_s: float) -> Any:
        """Have the poll thread run a function; return what it returns. Raises what it raises.

        Raises `ActionRefusedError` where no turn came in time: then it will not run any more.
        """
        call = _Call(function)
        if threading.get_ident() == self._thread:
            call.run()
        else:
            self._calls.append(call)
            if self._is_closed:
                self._refuse_all()
            if not call.done.wait(timeout_s) and call.claim():
                raise ActionRefusedError(
                    "busy",
                    f"Nothing was done: the poll loop has not come round for {timeout_s:g} s. A rebalance "
                    "may be going on; try again.",
                )
            call.done.wait()
        if call.error is not None:
            raise call.error
        return call.result

    def run(self, consumer: Consumer) -> None:
        """Make the calls that wait. Poll thread only."""
        self._thread = threading.get_ident()
        if not (self._calls or self._is_due):
            return
        self._is_due = False
        # First: what calls find and leave is of the epochs that are ours now.
        self.then()
        while self._calls:
            self._calls.popleft().run()
        self.apply(consumer)

    def close(self) -> None:
        """Refuse what waits and what still comes: the last turn is over. Poll thread only."""
        self._is_closed = True
        self._thread = None  # another thread may get its number
        self._refuse_all()

    def _refuse_all(self) -> None:
        while True:
            try:
                call = self._calls.popleft()
            except IndexError:  # nothing waits, or another thread took it
                return
            call.refuse(ActionRefusedError("stopped", "Nothing was done: the app stops."))

    def note_assigned(self) -> None:
        """Have what is kept apply to new epochs before their first record. Poll thread only."""
        self._is_due = True

    def apply(self, consumer: Consumer) -> None:
        """Tell the client which partitions to fetch no more of. Poll thread only."""
        owned = self._context.owned
        pausing = [KafkaPartition(*partition) for partition in self._to_pause if partition in owned]
        self._to_pause.clear()
        if pausing:
            consumer.pause(pausing)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Receive nothing more of partitions that are ours. Poll thread only, in a call."""
        self._to_pause += self._context.flow.pause_by_hand(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Let partitions go on, as far as flow control lets them. Poll thread only, in a call."""
        self._context.flow.resume_by_hand(partitions)
