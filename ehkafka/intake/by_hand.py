"""Commands to a running app: the poll thread makes calls that another thread has handed to it.

Inboxes and the client are the poll thread's to command. A caller that wants something done leaves a function
here and waits until a turn of the loop has run it: between two looks at the client, before what it brought is
handed on and before a commit, so that nothing is seen half done.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.errors import ActionRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.records import TopicPartition


class ByHand:
    """Calls for the poll thread, and the partitions that a command has paused."""

    def __init__(self, context: IntakeContext) -> None:
        self._context = context
        # Any thread appends; the poll thread takes.
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._thread: int | None = None
        # Set once, by the poll thread, when no turn comes any more. Set before what waits is refused; a
        # caller leaves its call first and reads this second, so that no call waits for a loop that has ended.
        self._is_closed = False
        # Runs in each turn with calls or new epochs, and in each slow look: ends pauses whose time is
        # over. Set once, before the thread starts.
        self.then: Callable[[], None] = lambda: None
        # A new epoch may have to take over what is paused.
        self._is_due = False
        # Partitions whose pause is to reach the client in this turn. Poll thread only.
        self._to_pause: list[TopicPartition] = []

    def call(self, function: Callable[[], object], timeout_s: float) -> Any:
        """Have the poll thread run a function; return what it returns. Raises what it raises.

        Raises `ActionRefusedError` where no turn came in time: then it will not run any more.
        """
        if threading.get_ident() == self._thread:
            return function()
        answer: Future[Any] = Future()
        self._calls.append((answer, function))
        if self._is_closed:
            self._refuse_all()
        wait([answer], timeout_s)
        if answer.cancel():
            raise ActionRefusedError(
                "busy",
                f"Nothing was done: the poll loop has not run for {timeout_s:g} s. A rebalance may be in "
                f"progress: try again.",
            )
        return answer.result()

    def run(self, consumer: Consumer) -> None:
        """Make the calls that wait. Poll thread only."""
        self._thread = threading.get_ident()
        if not (self._calls or self._is_due):
            return
        self._is_due = False
        # First: what calls find and leave is of the epochs that are ours now.
        self.then()
        while self._calls:
            answer, function = self._calls.popleft()
            if not answer.set_running_or_notify_cancel():
                continue  # given up in time
            try:
                answer.set_result(function())
            except BaseException as error:  # raised where it was asked for
                answer.set_exception(error)
        self.apply(consumer)

    def close(self) -> None:
        """Refuse what waits and what still comes: the last turn is over. Poll thread only."""
        self._is_closed = True
        self._thread = None  # another thread may get its number
        self._refuse_all()

    def _refuse_all(self) -> None:
        with suppress(IndexError):  # another thread took the last one
            while self._calls:
                answer, _ = self._calls.popleft()
                if answer.set_running_or_notify_cancel():
                    text = "Nothing was done: the app is stopping."
                    answer.set_exception(ActionRefusedError("stopped", text))

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
