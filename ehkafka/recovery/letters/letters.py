"""All ways to the dead letters of one run: the way of each handler, and the producer behind the topics.

Made before any thread of the run exists; started and stopped by the runtime, on the threads that do that.
`check` is called now and then by the thread that watches the run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.recovery.letters.function import FunctionSender
from ehkafka.recovery.letters.unanswered import Unanswered
from ehkafka.recovery.policy import DeadLetter
from ehkafka.settings.clock import REAL_CLOCK

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.recovery.failures import LetterSender
    from ehkafka.recovery.letters.letter import Letter
    from ehkafka.recovery.policy import FailurePolicy
    from ehkafka.settings.clock import Clock


class Letters:
    """Makes a handler's sender, and has all of them start and end with the run."""

    def __init__(
        self,
        to_topic: Callable[[str, Callable[[Ticket, Answer], None], History | None], LetterSender] | None,
        *,
        emit: Callable[[Event], None],
        history: History | None,
        why: Callable[[], str | None] = lambda: None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`to_topic` gives a way to a topic, None where no policy names one; `why` says why letters wait."""
        self._to_topic = to_topic
        self._why = why
        self._emit = emit
        self._history = history
        self._clock = clock
        self._functions: list[FunctionSender] = []
        # One for each sender.
        self._unanswered: list[Unanswered] = []
        # The topics that letters go to: they must be there before anything runs.
        self.topics: set[str] = set()

    def sender(
        self,
        policy: FailurePolicy,
        complete: Callable[[Ticket, Answer], None],
        *,
        in_history: bool = True,
    ) -> LetterSender | None:
        """Return a handler's way to its dead letters, None where its policy has none.

        Not `in_history`: for records that have ended there already.
        """
        if not isinstance(policy, DeadLetter):
            return None
        unanswered = Unanswered(policy.where, self._clock.now_s)
        self._unanswered.append(unanswered)

        def answer(ticket: Ticket, answer: Answer) -> None:
            unanswered.answered(ticket)
            complete(ticket, answer)

        history = self._history if in_history else None
        if isinstance(policy.to, str):
            assert self._to_topic is not None
            self.topics.add(policy.to)
            unanswered.why = lambda: self._why() or "the broker has not answered"
            return _WatchedSender(self._to_topic(policy.to, answer, history), unanswered)
        function = FunctionSender(policy, answer, emit=self._emit, history=history, clock=self._clock.now_s)
        self._functions.append(function)
        unanswered.why = lambda: function.problem
        return _WatchedSender(function, unanswered)

    def wake(self) -> None:
        """Let all see whether anything is due: the time has jumped. Any thread."""
        for sender in self._functions:
            sender.wake()

    def check(self) -> None:
        """Tell of letters that have waited too long for their answer, once each."""
        for unanswered in self._unanswered:
            for late in unanswered.take_late():
                self._emit(late)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the ways to the dead letters, while it lasts. From any thread."""
        for unanswered in self._unanswered:
            if (problem := unanswered.problem) is not None:
                yield problem

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of those that write letters: the user's functions run there."""
        return any(sender.owns(thread) for sender in self._functions)

    def stop(self, timeout_s: float) -> None:
        """End all, after `timeout_s` seconds at most: what is not safe by then is redelivered."""
        ends_s = time.monotonic() + timeout_s
        for sender in self._functions:
            sender.stop(max(0.0, ends_s - time.monotonic()))


class _WatchedSender:
    """A sender whose letters are remembered until they are answered."""

    def __init__(self, sender: LetterSender, unanswered: Unanswered) -> None:
        self._sender = sender
        self._unanswered = unanswered

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        self._unanswered.posted(ticket, letter.origin, letter.offset)
        self._sender.post(ticket, letter)
