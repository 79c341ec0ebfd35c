"""The drop-in consumer under an `AIOConsumer`: a record counts as given when a task has it, not before.

On its way from the thread that polled to the task, a record may lose the task: then it is returned by the
next poll. Until a task has it no commit passes it, not even one that another task asks for meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.consumer import Consumer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message


class HeldBackConsumer(Consumer):
    """Polled by one thread at a time, and only when nothing it polled before is on its way to a task."""

    _is_noted_at_once = False

    @property
    def is_open(self) -> bool:
        """Whether it is not closed yet; a callback may have, with the end of its call."""
        return self._is_open

    @property
    def is_contiguous(self) -> bool:
        """Whether the program marks each record."""
        return self._internals.marks is not None

    def poll(self, timeout: float = -1) -> Message | None:
        """See `Consumer.poll`."""
        self._pause_stuck()
        return super().poll(timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """See `Consumer.consume`."""
        self._pause_stuck()
        return super().consume(num_messages, timeout)

    def given(self, messages: Sequence[Message]) -> None:
        """A task has these now. On the loop, so nothing here waits for librdkafka."""
        internals = self._internals
        if len(messages) == 1:
            internals.returned.took_one(messages[0])
        else:
            internals.returned.took(messages)
        if internals.marks is not None:
            internals.marks.delivered(messages, may_pause=False)

    def give_back(self, messages: Sequence[Message]) -> None:
        """No task has these: the next poll returns them, before anything else. On the loop."""
        if self._is_open:
            self._kept.extendleft(reversed(messages))

    def _pause_stuck(self) -> None:
        marks = self._internals.marks
        if marks is not None:
            marks.pause_stuck()
