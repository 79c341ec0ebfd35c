"""All that a run writes to topics: dead letters, outputs, and what `app.producer` sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.recovery.letters.letters import Letters
    from ehkafka.run.outputs import Outputs
    from ehkafka.run.transactions import Transactions


class WaysOut:
    """Letters, outputs where handlers have any, and messages, which the app itself opens and closes."""

    def __init__(
        self, letters: Letters, outputs: Outputs | Transactions | None, messages: OwnProducer
    ) -> None:
        self._letters = letters
        self._outputs = outputs
        self.messages = messages

    def start(self) -> None:
        """Open what is needed. Raises `ConfigurationError` or `EndpointError` for what is refused."""
        if self._outputs is not None:
            self._outputs.start()

    def stop(self, timeout_s: float) -> None:
        """End the threads; outputs and letters get so long."""
        if self._outputs is not None:
            self._outputs.stop(timeout_s)
        self._letters.stop(timeout_s)

    def check(self) -> None:
        """Tell of letters that have waited too long for their answer, once each."""
        self._letters.check()

    def wake(self) -> None:
        """Let all see whether anything is due: the time has jumped."""
        for way in self._letters.ways:
            way.wake()
        if self._outputs is not None:
            self._outputs.wake()

    def problems(self) -> Iterator[str]:
        """Yield what is wrong, while it lasts. From any thread."""
        yield from filter(None, (way.problem for way in self._letters.ways))
        if self._outputs is not None and (problem := self._outputs.problem) is not None:
            yield problem
        if (problem := self.messages.problem) is not None:
            yield problem

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of those that write."""
        if self.messages.owns(thread) or any(way.owns(thread) for way in self._letters.ways):
            return True
        return self._outputs is not None and self._outputs.owns(thread)
