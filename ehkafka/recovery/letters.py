"""All ways to the dead letters of one run: the boxes of its handlers, and the office behind the topics.

Made before any thread of the run exists; started and stopped by the runtime, on the threads that do that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.recovery.letter_function import FunctionBox
from ehkafka.recovery.policy import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.history import History
    from ehkafka.recovery.decision import Ticket, Verdict
    from ehkafka.recovery.desk import LetterBox
    from ehkafka.recovery.letter_office import LetterOffice
    from ehkafka.recovery.policy import FailurePolicy


class Letters:
    """Makes a handler's box, and has all of them start and end with the run."""

    def __init__(
        self,
        make_office: Callable[[], LetterOffice],
        *,
        emit: Callable[[Event], None],
        history: History | None,
    ) -> None:
        """`make_office` is called once, and only where a policy names a topic."""
        self._make_office = make_office
        self._emit = emit
        self._history = history
        self._office: LetterOffice | None = None
        self._functions: list[FunctionBox] = []
        # The topics that letters go to: they must be there before anything runs.
        self.topics: set[str] = set()

    def box(self, policy: FailurePolicy, complete: Callable[[Ticket, Verdict], None]) -> LetterBox | None:
        """Return a handler's way to its dead letters, None where its policy has none."""
        if not isinstance(policy, DeadLetter):
            return None
        if isinstance(policy.to, str):
            if self._office is None:
                self._office = self._make_office()
            self.topics.add(policy.to)
            return self._office.box(policy.to, complete)
        self._functions.append(FunctionBox(policy, complete, emit=self._emit, history=self._history))
        return self._functions[-1]

    def start(self) -> None:
        """Open what is needed. Raises `ConfigurationError` for what the client library refuses."""
        if self._office is not None:
            self._office.start()

    def stop(self, timeout_s: float) -> None:
        """End all, after `timeout_s` seconds at most: what is not safe by then is redelivered."""
        ends_s = time.monotonic() + timeout_s
        if self._office is not None:
            self._office.stop(timeout_s)
        for box in self._functions:
            box.stop(max(0.0, ends_s - time.monotonic()))
