"""The targets of all dead letters of one run. Made before any thread of the run exists."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Outcome
from ehkafka.recovery.letters.function import LetterFunction
from ehkafka.recovery.policy import DeadLetter
from ehkafka.settings.clock import REAL_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.recovery.letters.letter import Letter
    from ehkafka.recovery.letters.target import LetterTarget
    from ehkafka.recovery.policy import FailurePolicy
    from ehkafka.recovery.refused_outputs import RefusedOutputs
    from ehkafka.settings.clock import Clock

    # Takes the dead letter of a waiting record, and answers the record's ticket once.
    PostLetter = Callable[[Ticket, Letter], None]


class LetterTargets:
    """Makes the targets of handlers' dead letters."""

    def __init__(
        self,
        to_topic: Callable[[str], LetterTarget],
        *,
        emit: Callable[[Event], None],
        history: History | None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`to_topic` makes the target for a topic."""
        self._to_topic = to_topic
        self._emit = emit
        self._history = history
        self._clock = clock
        self.targets: list[LetterTarget] = []
        # For each handler with outputs: its rules for those that are refused.
        self.refused: list[RefusedOutputs] = []

    def target(self, policy: FailurePolicy) -> LetterTarget | None:
        """Return a new target for a handler's dead letters; None if its policy has none."""
        if not isinstance(policy, DeadLetter):
            return None
        if isinstance(policy.to, str):
            target = self._to_topic(policy.to)
        else:
            target = LetterFunction(policy, emit=self._emit, clock=self._clock.now_s)
        self.targets.append(target)
        return target

    def check(self) -> None:
        """Report dead letters that have waited too long, once each; limit the kept outputs."""
        for target in self.targets:
            target.check()
        for refused in self.refused:
            refused.check()

    def stop(self, timeout_s: float) -> None:
        """End all within `timeout_s`: records whose dead letters are not safe by then are handled again."""
        ends_s = time.monotonic() + timeout_s
        for target in self.targets:
            target.stop(max(0.0, ends_s - time.monotonic()))

    def of_records(
        self, policy: FailurePolicy, complete: Callable[[Ticket, Answer], None]
    ) -> PostLetter | None:
        """Return the function that posts the dead letters of a handler; `complete` is its hub's `answer`."""
        target = self.target(policy)
        if target is None:
            return None

        def post(ticket: Ticket, letter: Letter) -> None:
            target.post(ticket.attempt.entry, letter, partial(self._answer, complete, ticket))

        return post

    def _answer(self, complete: Callable[[Ticket, Answer], None], ticket: Ticket, answer: Answer) -> None:
        # First: after the answer a commit may pass the record, and the history must have the reason by then.
        if answer is Outcome.DEAD_LETTERED and self._history is not None:
            attempt = ticket.attempt
            place, offset, key = attempt.epoch.partition, attempt.message.offset(), users_key(attempt.key)
            self._history.dead_lettered(place, offset)
            self._history.finished(place, attempt.epoch.number, offset, key, attempt.number, answer.value)
        complete(ticket, answer)
