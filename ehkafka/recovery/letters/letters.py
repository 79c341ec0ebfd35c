"""All ways to the dead letters of one run: the way of each handler, and the producer behind the topics.

Made before any thread of the run exists; started and stopped by the runtime, on the threads that do that.
`check` is called now and then by the thread that watches the run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from ehkafka.outputs.one_producer import ID_S
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


class LettersToTopics(Protocol):
    """What writes letters to topics: a producer of its own, or the transactions of an app."""

    @property
    def problem(self) -> str:
        """Why letters wait."""

    def sender(
        self, to: str, complete: Callable[[Ticket, Answer], None], *, in_history: bool = True
    ) -> LetterSender:
        """Return where one handler posts its letters for a topic."""

    def start(self, id_s: float, /) -> None:
        """Open what is needed."""

    def wake(self) -> None:
        """See whether a letter is due."""

    def owns(self, thread: threading.Thread, /) -> bool:
        """Tell whether a thread is its own."""

    def stop(self, timeout_s: float, /) -> int:
        """Stop, and return how many letters are not safe."""


class Letters:
    """Makes a handler's sender, and has all of them start and end with the run."""

    def __init__(
        self,
        make_topics: Callable[[], LettersToTopics],
        *,
        emit: Callable[[Event], None],
        history: History | None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`make_topics` is called once, and only where a policy names a topic."""
        self._make_topics = make_topics
        self._emit = emit
        self._history = history
        self._clock = clock
        self._topics: LettersToTopics | None = None
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

        if isinstance(policy.to, str):
            topics = self._topics_to(policy.to)
            unanswered.why = lambda: topics.problem
            return _WatchedSender(topics.sender(policy.to, answer, in_history=in_history), unanswered)
        history = self._history if in_history else None
        function = FunctionSender(policy, answer, emit=self._emit, history=history, clock=self._clock.now_s)
        self._functions.append(function)
        unanswered.why = lambda: function.problem
        return _WatchedSender(function, unanswered)

    def _topics_to(self, topic: str) -> LettersToTopics:
        if self._topics is None:
            self._topics = self._make_topics()
        self.topics.add(topic)
        return self._topics

    def start(self, id_s: float = ID_S) -> None:
        """Open what is needed, and wait up to `id_s` for the broker to give a producer id.

        Raises `ConfigurationError` or `EndpointError` for what is refused.
        """
        if self._topics is not None:
            self._topics.start(id_s)

    def wake(self) -> None:
        """Let all see whether anything is due: the time has jumped. Any thread."""
        if self._topics is not None:
            self._topics.wake()
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
        is_the_topics = self._topics is not None and self._topics.owns(thread)
        return is_the_topics or any(sender.owns(thread) for sender in self._functions)

    def stop(self, timeout_s: float) -> None:
        """End all, after `timeout_s` seconds at most: what is not safe by then is redelivered."""
        ends_s = time.monotonic() + timeout_s
        if self._topics is not None:
            self._topics.stop(timeout_s)
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
