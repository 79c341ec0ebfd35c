"""All ways to the dead letters of one run: the boxes of its handlers, and the office behind the topics.

Made before any thread of the run exists; started and stopped by the runtime, on the threads that do that.
`look` is called now and then by the thread that watches the run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.recovery.letters.function import FunctionBox
from ehkafka.recovery.letters.producer import ID_S
from ehkafka.recovery.letters.unanswered import Unanswered
from ehkafka.recovery.policy import DeadLetter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Ticket, Verdict
    from ehkafka.recovery.failures import LetterBox
    from ehkafka.recovery.letters.letter import Letter
    from ehkafka.recovery.letters.topics import LetterOffice
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
        # One for each box.
        self._unanswered: list[Unanswered] = []
        # The topics that letters go to: they must be there before anything runs.
        self.topics: set[str] = set()

    def box(self, policy: FailurePolicy, complete: Callable[[Ticket, Verdict], None]) -> LetterBox | None:
        """Return a handler's way to its dead letters, None where its policy has none."""
        if not isinstance(policy, DeadLetter):
            return None
        unanswered = Unanswered(policy.where, time.monotonic)
        self._unanswered.append(unanswered)

        def answer(ticket: Ticket, verdict: Verdict) -> None:
            unanswered.answered(ticket)
            complete(ticket, verdict)

        if isinstance(policy.to, str):
            office = self._office_to(policy.to)
            unanswered.why = lambda: office.problem
            return _WatchedBox(office.box(policy.to, answer), unanswered)
        function = FunctionBox(policy, answer, emit=self._emit, history=self._history)
        self._functions.append(function)
        unanswered.why = lambda: function.problem
        return _WatchedBox(function, unanswered)

    def _office_to(self, topic: str) -> LetterOffice:
        if self._office is None:
            self._office = self._make_office()
        self.topics.add(topic)
        return self._office

    def start(self, id_s: float = ID_S) -> None:
        """Open what is needed, and wait up to `id_s` for the broker to give a producer id.

        Raises `ConfigurationError` or `EndpointError` for what is refused.
        """
        if self._office is not None:
            self._office.start(id_s)

    def look(self) -> None:
        """Tell of letters that have waited too long for their answer, once each."""
        for unanswered in self._unanswered:
            for late in unanswered.take_late():
                self._emit(late)

    def troubles(self) -> Iterator[str]:
        """Yield what is wrong with the ways to the dead letters, while it lasts. From any thread."""
        for unanswered in self._unanswered:
            if (trouble := unanswered.trouble) is not None:
                yield trouble

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of those that write letters: the user's functions run there."""
        is_the_offices = self._office is not None and self._office.owns(thread)
        return is_the_offices or any(box.owns(thread) for box in self._functions)

    def stop(self, timeout_s: float) -> None:
        """End all, after `timeout_s` seconds at most: what is not safe by then is redelivered."""
        ends_s = time.monotonic() + timeout_s
        if self._office is not None:
            self._office.stop(timeout_s)
        for box in self._functions:
            box.stop(max(0.0, ends_s - time.monotonic()))


class _WatchedBox:
    """A box whose letters are remembered until they are answered."""

    def __init__(self, box: LetterBox, unanswered: Unanswered) -> None:
        self._box = box
        self._unanswered = unanswered

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        self._unanswered.posted(ticket, letter.origin, letter.offset)
        self._box.post(ticket, letter)
