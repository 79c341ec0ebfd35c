"""Decides on an output that the broker refuses: its handler's retry first, then its failure policy.

The handler is not called again: later records of its key may have run. Called on the thread that sends
outputs, with one refused output of a group at a time; the later ones wait. The user's `retry` function is
called on a thread of its own. With `before_next` the attempt fails instead, see `outputs.outlet`.

If the dead letter of its record is refused as well, an output waits for the next start, and its record stays
uncommitted. The keys of all records that wait behind it are on hold: otherwise their outputs would use up the
room for outputs.
"""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, HandlerFailedError, describe
from ehkafka.events import OutputRefused, UserCodeFailed
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.records import Record, own_copy
from ehkafka.recovery.failures import STOP_WORDS, StopWords
from ehkafka.recovery.letters.letter import letter_of
from ehkafka.recovery.policy import DeadLetter, FailurePolicy, Skip
from ehkafka.recovery.retry import Retry, RetryFunction, delay_of_function
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.lanes.decision import Answer
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Answer as OutputAnswer
    from ehkafka.outputs.output import Output
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.records import TopicPartition
    from ehkafka.recovery.letters.target import LetterTarget


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused output. `answer` takes the seconds until its next try; None: it is not needed any more."""

    output: Output
    error: Exception
    attempt: int
    answer: OutputAnswer

    @property
    def partition(self) -> TopicPartition:
        """The partition of its first record."""
        partition: TopicPartition = self.output.entries[0][EPOCH].partition
        return partition

    @property
    def offset(self) -> int:
        """The first of its records."""
        return self.output.entries[0][MESSAGE].offset()


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
    # For dead letters; None: the policy has none.
    target: LetterTarget | None
    words: StopWords = STOP_WORDS
    outputs: Unacknowledged
    # Starts nothing more of a record's key; None: an output whose dead letter is refused ends the run.
    hold: Callable[[Entry, HoldHead], None] | None = None
    # The outputs that wait for the next start, by `id`, oldest first, each with the reason that health shows.
    _kept: dict[int, tuple[Output, str]] = field(init=False, default_factory=dict)

    def __call__(self, output: Output, error: Exception, attempt: int, answer: OutputAnswer) -> None:
        """Decide on a refused output. If the app stops because of it, `answer` is never called."""
        refusal = Refusal(output, error, attempt, answer)
        if isinstance(self.retry, Retry):
            self._go_on(refusal, self.retry.delay_s(attempt, error, random.random()))  # noqa: S311 - jitter
        else:
            # The user's function may take as long as it likes, and other outputs do not wait for it.
            ask = partial(self._ask_function, self.retry, refusal)
            threading.Thread(target=ask, name="ehkafka-outputs-retry", daemon=True).start()

    def _ask_function(self, retry: RetryFunction, refusal: Refusal) -> None:
        message, attempt = refusal.output.entries[0][MESSAGE], refusal.attempt
        delay_s = None
        try:
            record: Any = own_copy(message) if self.raw else self.make_record(message, attempt)
            delay_s = delay_of_function(retry(record, attempt, refusal.error))
        except ConfigurationError as failed:
            self.emit(UserCodeFailed("retry", str(failed)))
        except BaseException as failed:  # the user's function: without its answer the policy decides
            self.emit(UserCodeFailed.of("retry", failed))
        self._go_on(refusal, delay_s)

    def _go_on(self, refusal: Refusal, delay_s: float | None) -> None:
        if delay_s is not None:
            self._report(refusal, delay_s, "")
            refusal.answer(delay_s)
        elif isinstance(self.policy, Skip):
            self._report(refusal, None, "the output is skipped")
            refusal.answer(None)
        elif isinstance(self.policy, DeadLetter):
            self._report(refusal, None, f"the record becomes a dead letter in {self.policy.where}")
            self._write_letters(refusal)
        else:
            self._report(refusal, None, "the app stops")
            self._stop_the_app(refusal)

    def _stop_the_app(self, refusal: Refusal) -> None:
        kept = self.words.kept.format(partition=refusal.partition)
        failure = HandlerFailedError(
            f"{self._what_failed(refusal)} {kept}. Fix the topic or the output, or choose another failure "
            f"policy: retry=, on_failure=Skip() or on_failure=DeadLetter(…)."
        )
        failure.__cause__ = refusal.error
        self.fatal(failure)

    def _what_failed(self, refusal: Refusal) -> str:
        return (
            f"An output of {refusal.partition}@{refusal.offset}, handler {self.handler!r}, was refused by "
            f"{refusal.output.topic!r}, attempt {refusal.attempt}: {ended(describe(refusal.error))}"
        )

    def _write_letters(self, refusal: Refusal) -> None:
        """Have a letter written for each record of an output, which is not needed once all are safe."""
        assert self.target is not None
        entries = refusal.output.entries
        left, safe = list(entries), []

        def take(answer: Answer) -> None:
            """Take the answer for one letter; one that is refused keeps its record from being committed."""
            if isinstance(answer, HoldHead) and answer.letter_refused:
                self._take_refused_letter(refusal, answer.reason)
                return
            # By any thread.
            left.pop()
            if not isinstance(answer, HoldHead):
                safe.append(answer)
            # A letter that could not be put, because its partition is taken away or the app stops, is not
            # safe: a commit that is still under way must not pass its record. The epoch's end drops the
            # output, but not while another of its records is ours.
            if safe and not left:
                refusal.answer(None)

        for entry in entries:
            letter = letter_of(
                entry[MESSAGE],
                entry[EPOCH].partition,
                error=refusal.error,
                reason=describe(refusal.error),
                attempts=refusal.attempt,
                failed_at_s=time.time(),
                handler=self.handler,
                group=self.group,
            )
            self.target.post(entry, letter, take)

    def _take_refused_letter(self, refusal: Refusal, reason: str) -> None:
        text = f"{self._what_failed(refusal)} The record's dead letter was refused, too: {ended(reason)}"
        if self.hold is None:
            kept = self.words.kept.format(partition=refusal.partition)
            self.fatal(HandlerFailedError(f"{text} {kept}. Fix the topics."))
        else:
            text = (
                f"{text} The key of the record is on hold, and commits stop at the record. Fix the topics, "
                f"then restart the app."
            )
            self._kept.setdefault(id(refusal.output), (refusal.output, text))
            self._hold_keys(refusal.output, text)
            refusal.answer(math.inf)

    def check(self) -> None:
        """Hold the keys of records whose outputs wait behind a kept one; forget those of ended epochs.

        By the thread that watches the run.
        """
        for place, (first, why) in list(self._kept.items()):
            if first.has_ended:
                del self._kept[place]
                continue
            for output in self.outputs.behind(first):
                self._hold_keys(output, why)

    def _hold_keys(self, output: Output, why: str) -> None:
        assert self.hold is not None
        for entry in output.entries:
            self.hold(entry, HoldHead(why, letter_refused=True))

    @property
    def problem(self) -> str | None:
        """The problem of a kept output, while its partition is ours."""
        found = [why for output, why in list(self._kept.values()) if not output.has_ended]
        if not found:
            return None
        more = f" {counted(len(found) - 1, 'more output')} failed likewise." if len(found) > 1 else ""
        return found[0] + more

    def _report(self, refusal: Refusal, delay_s: float | None, decision: str) -> None:
        what = (refusal.partition, refusal.offset, refusal.output.topic, refusal.attempt)
        self.emit(OutputRefused(*what, describe(refusal.error), delay_s, decision))
