"""What becomes of an output that the broker refuses: its handler's retry first, then its failure policy.

The handler is not called again: later records of its key may have run. Called by the sender of outputs, on
its thread, with one refused output of a group at a time; the later ones wait. The user's `retry` function is
called on a thread of its own.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, HandlerFailedError, describe
from ehkafka.events import OutputRefused, UserCodeFailed
from ehkafka.lanes.decision import Attempt, AwaitHead, HoldHead, Ticket
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.records import Outcome, Record, own_copy
from ehkafka.recovery.failures import STOP_WORDS, StopWords
from ehkafka.recovery.letters.letter import letter_of
from ehkafka.recovery.policy import DeadLetter, FailurePolicy, Skip
from ehkafka.recovery.retry import Retry, RetryFunction, delay_of_function
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.lanes.decision import Answer
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.output import Output
    from ehkafka.recovery.letters.letters import Letters


@dataclass(kw_only=True)
class RefusedOutputs:
    """One handler's rules for refused outputs."""

    handler: str
    policy: FailurePolicy
    retry: Retry | RetryFunction
    emit: Callable[[Event], None]
    fatal: Callable[[EhkafkaError], None]
    make_record: type[Record]
    raw: bool
    group: str
    letters: Letters
    words: StopWords = STOP_WORDS
    # A record whose letter is refused, too, may wait for the next start. False: that ends the run.
    may_hold: bool = True

    def __post_init__(self) -> None:
        """Open a way to the dead letters of outputs, if the policy has one."""
        self._done: dict[Ticket, tuple[list[Ticket], Callable[[], None]]] = {}
        self._sender = self.letters.sender(self.policy, self._answered, in_history=False)

    def __call__(
        self, output: Output, error: Exception, attempt: int, answer: Callable[[float | None], None]
    ) -> None:
        """Answer when it is sent again, or with None once it is not needed; never, where the app stops."""
        if isinstance(self.retry, Retry):
            delay_s = self.retry.delay_s(attempt, error, random.random())  # noqa: S311 - jitter
            self._go_on(output, error, attempt, answer, delay_s)
        else:
            # The user's function may take as long as it likes, and other outputs do not wait for it.
            ask = partial(self._ask_function, self.retry, output, error, attempt, answer)
            threading.Thread(target=ask, name="ehkafka-outputs-retry", daemon=True).start()

    def _ask_function(
        self,
        retry: RetryFunction,
        output: Output,
        error: Exception,
        attempt: int,
        answer: Callable[[float | None], None],
    ) -> None:
        message = output.entries[0][MESSAGE]
        record: Any = own_copy(message) if self.raw else self.make_record(message, attempt)
        delay_s = None
        try:
            delay_s = delay_of_function(retry(record, attempt, error))
        except ConfigurationError as failed:
            self.emit(UserCodeFailed("retry", str(failed)))
        except BaseException as failed:  # the user's function: without its answer the policy decides
            self.emit(UserCodeFailed.of("retry", failed))
        self._go_on(output, error, attempt, answer, delay_s)

    def _go_on(
        self,
        output: Output,
        error: Exception,
        attempt: int,
        answer: Callable[[float | None], None],
        delay_s: float | None,
    ) -> None:
        if delay_s is not None:
            self._report(output, error, attempt, delay_s, "")
            answer(delay_s)
        elif isinstance(self.policy, Skip):
            self._report(output, error, attempt, None, "it is skipped")
            answer(None)
        elif isinstance(self.policy, DeadLetter):
            self._report(output, error, attempt, None, f"its record goes to {self.policy.where}")
            self._write_letters(output, error, attempt, partial(answer, None), self.policy)
        else:
            self._report(output, error, attempt, None, "the app stops")
            self._stop_the_app(output, error, attempt)

    def _stop_the_app(self, output: Output, error: Exception, attempt: int) -> None:
        epoch, offset = _place_of(output)
        failure = HandlerFailedError(
            f"An output of {epoch.partition}@{offset}, handler {self.handler!r}, was refused by "
            f"{output.topic!r}, attempt {attempt}: {ended(describe(error))} "
            f"{self.words.kept.format(partition=epoch.partition)}. Fix the topic or "
            "the output, or choose what failures lead to: retry=, on_failure=Skip() or DeadLetter(…)."
        )
        failure.__cause__ = error
        self.fatal(failure)

    def _write_letters(
        self, output: Output, error: Exception, attempt: int, done: Callable[[], None], policy: DeadLetter
    ) -> None:
        assert self._sender is not None
        waits = f"the dead letter of its output is on its way to {policy.where}"
        pairs = []
        for entry in output.entries:
            # Its own key has continued: nothing waits behind this one but the output.
            held = Held(entry[KEY], {}, deque)
            ticket = Ticket(held, AwaitHead(waits, lambda _ticket: None), Attempt(entry, attempt))
            letter = letter_of(
                entry[MESSAGE],
                entry[EPOCH].partition,
                error=error,
                reason=describe(error),
                attempts=attempt,
                failed_at_s=time.time(),
                handler=self.handler,
                group=self.group,
            )
            pairs.append((ticket, letter))
        left = [ticket for ticket, _ in pairs]
        for ticket, _ in pairs:
            self._done[ticket] = left, done
        for ticket, letter in pairs:
            self._sender.post(ticket, letter)

    def _answered(self, ticket: Ticket, answer: Answer) -> None:
        """Take the answer for one letter; one that is refused keeps its record from being committed."""
        left, done = self._done.pop(ticket)
        if answer is Outcome.DEAD_LETTERED:
            left.remove(ticket)
            if not left:
                done()
        elif isinstance(answer, HoldHead) and answer.letter_refused and not self.may_hold:
            where = ticket.attempt.epoch.partition
            self.fatal(
                HandlerFailedError(
                    f"An output of {where}, handler {self.handler!r}, was refused, and so was its record's "
                    f"dead letter: {ended(answer.reason)} {self.words.kept.format(partition=where)}. Fix the "
                    "topics."
                )
            )

    def _report(
        self, output: Output, error: Exception, attempt: int, delay_s: float | None, decision: str
    ) -> None:
        epoch, offset = _place_of(output)
        what = (epoch.partition, offset, output.topic, attempt)
        self.emit(OutputRefused(*what, describe(error), delay_s, decision))


def _place_of(output: Output) -> tuple[Epoch, int]:
    entry = output.entries[0]
    return entry[EPOCH], entry[MESSAGE].offset()
