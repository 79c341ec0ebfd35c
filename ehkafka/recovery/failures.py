"""`Failures` decides what becomes of a record whose handler raised.

On the worker's thread, before the dispatcher takes the record over, so user code runs neither on the poll
thread nor under the lock. It never raises. The order of its questions: must the app stop for this, what does
the handler itself want, is there another attempt, what does `on_error` say, what does the policy say.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.errors import ConfigurationError, HandlerFailedError, describe
from ehkafka.events import HandlerFailed, RecordRetried, RecordSkipped, UserCodeFailed
from ehkafka.events.event import raised
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.lanes.order import KeyFailure, describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Record, own_copy
from ehkafka.records.signals import RejectRecord, RetryLater, SkipRecord
from ehkafka.recovery.letters.flood import FloodGauge
from ehkafka.recovery.letters.letter import letter_of
from ehkafka.recovery.policy import DeadLetter, FailurePolicy, Hold, Skip
from ehkafka.recovery.retry import NO_RETRY, Retry, RetryFunction, delay_of_function
from ehkafka.wording import ended
from ehkafka.wording.error_stack import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Attempt, Decision
    from ehkafka.recovery.letters.letters import PostLetter

# What `App.on_error` may answer; None leaves it to the failure policy.
CONTINUE = "continue"
STOP = "stop"
FOLLOWS = "an earlier record of its key was dead-lettered"
# What an attempt that failed led to: another one later, an end, a record that waits for a decision or for the
# next start; of an epoch that has ended it leads to nothing.
FAILED_OUTCOMES = ("retried", "skipped", "dead_lettered", "held", "stale")
_OUTCOMES: dict[type[Any], str] = {
    RetryHead: "retried",
    SkipHead: "skipped",
    AwaitHead: "dead_lettered",
    HoldHead: "held",
}


class StopWords(NamedTuple):
    """The last sentences of a stop's error; an engine with other consequences has its own.

    `kept` tells where the records stay, `answers` lists the possible answers of `on_error`.
    """

    kept: str = (
        "Commits of {partition} stop before this offset, so the record is handled again at the next start"
    )
    advice: str = (
        "Fix the handler or the record, or choose another failure policy: on_failure=Hold(), Skip() or "
        "DeadLetter(…)"
    )
    answers: str = "'continue', 'stop' or None"


STOP_WORDS = StopWords()


@dataclass(kw_only=True)
class Failures:
    """Applies one handler's retries and failure policy. Called by any worker.

    `ask` is the user's `on_error(kind, partition, record, error)`; `finished_records` how many records the
    handler has finished.
    """

    handler: str
    policy: FailurePolicy
    emit: Callable[[Event], None]
    fatal: Callable[[EhkafkaError], None]
    retry: Retry | RetryFunction = NO_RETRY
    ask: Callable[..., Any] | None = None
    raw: bool = False
    make_record: type[Record] = Record
    group: str = ""
    post_letter: PostLetter | None = None
    finished_records: Callable[[], int] = lambda: 0
    history: History | None = None
    chance: Callable[[], float] = random.random
    now_s: Callable[[], float] = time.time
    words: StopWords = STOP_WORDS
    # What became of attempts that failed, see `FAILED_OUTCOMES`. Written under the lock, read without.
    attempts: dict[str, int] = field(init=False, default_factory=lambda: dict.fromkeys(FAILED_OUTCOMES, 0))
    _attempts_lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _flood: FloodGauge | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Make what the policy needs."""
        if isinstance(self.policy, DeadLetter) and self.policy.is_limited:
            self._flood = FloodGauge(self.policy)

    def __call__(self, attempt: Attempt, error: BaseException) -> Decision:
        """Return what to do with a record whose call has raised."""
        decision = self._decide(attempt, error)
        outcome = "stale" if attempt.epoch.ended else _OUTCOMES[type(decision)]
        with self._attempts_lock:
            self.attempts[outcome] += 1
        return decision

    def _decide(self, attempt: Attempt, error: BaseException) -> Decision:
        # SystemExit, KeyboardInterrupt and a process without memory say nothing about the record.
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            return self._stop(attempt, error)
        if attempt.epoch.ended:
            return self._leave(attempt, error)
        if isinstance(error, SkipRecord):
            return self._skip(attempt, error.reason)
        try:
            delay_s = self._delay_s(attempt, error)
        except BaseException as wish:  # sys.exit() and the like in the user's function: an answer too
            self.emit(UserCodeFailed.of("retry", wish))
            return self._stop(
                attempt, error, because=f"The retry function tried to end the process: {describe(wish)}"
            )
        if delay_s is not None:
            is_asked = isinstance(error, RetryLater)
            stack = {} if is_asked else raised(error)
            self.emit(RecordRetried(*self._where(attempt), attempt.number, describe(error), delay_s, **stack))
            return RetryHead(delay_s, describe(error), is_asked=is_asked)
        return self._give_up(attempt, error)

    def divert(self, attempt: Attempt, reason: str = FOLLOWS) -> Decision:
        """Return how a record follows its key to the dead letters; `attempt` is its next one.

        Under the lock: it only builds values.
        """
        return self._post(attempt, None, reason, attempt.number - 1)

    def _delay_s(self, attempt: Attempt, error: Exception) -> float | None:
        if isinstance(error, RetryLater):
            return error.after_s
        # The order function's answer for a record does not change by asking again.
        if isinstance(error, RejectRecord) or isinstance(attempt.key, KeyFailure):
            return None
        calls = attempt.number - attempt.asked
        if isinstance(self.retry, Retry):
            return self.retry.delay_s(calls, error, self.chance())
        try:
            return delay_of_function(self.retry(self._record(attempt), calls, error))
        except ConfigurationError as failed:
            self.emit(UserCodeFailed("retry", str(failed)))
        except Exception as failed:  # the user's function: without its answer the policy decides
            self.emit(UserCodeFailed.of("retry", failed))
        return None

    def _give_up(self, attempt: Attempt, error: Exception) -> Decision:
        answer = self._asked(attempt, error) if self.ask is not None else None
        if answer == STOP:
            return self._stop(attempt, error)
        if answer == CONTINUE or isinstance(self.policy, Hold):
            return self._hold(attempt, error, "its key is on hold, and commits stop at this record")
        if isinstance(self.policy, Skip):
            return self._skip(attempt, describe(error), error)
        if isinstance(self.policy, DeadLetter):
            return self._dead_letter(attempt, error, self.policy)
        return self._stop(attempt, error)

    def _dead_letter(self, attempt: Attempt, error: Exception, policy: DeadLetter) -> Decision:
        # Only where there is a limit: to count what has finished, all workers' notes are read under the lock.
        flood = None if self._flood is None else self._flood.overflow(self.finished_records())
        if flood is None:
            self._report(attempt, error, f"its dead letter goes to {policy.where}")
            return self._post(attempt, error, describe(error), attempt.number)
        if policy.on_limit == "hold":
            return self._hold(attempt, error, f"its key is on hold: {flood}")
        return self._stop(attempt, error, because=flood)

    def _post(self, attempt: Attempt, error: Exception | None, reason: str, attempts: int) -> Decision:
        assert isinstance(self.policy, DeadLetter)
        post = self.post_letter
        assert post is not None
        letter = letter_of(
            attempt.message,
            attempt.epoch.partition,
            error=error,
            reason=reason,
            attempts=attempts,
            failed_at_s=self.now_s(),
            handler=self.handler,
            group=self.group,
            stack="" if error is None or not self.policy.stack else stack_of(error),
        )
        waits = f"its dead letter is not acknowledged yet by {self.policy.where}"
        return AwaitHead(waits, lambda ticket: post(ticket, letter), self.policy.after)

    def _skip(self, attempt: Attempt, reason: str, error: Exception | None = None) -> Decision:
        partition, offset, key = self._where(attempt)
        stack = {} if error is None else raised(error)
        self.emit(RecordSkipped(partition, offset, key, attempt.number, reason, **stack))
        if self.history is not None:
            epoch = attempt.epoch.number
            its_key = users_key(attempt.key)
            self.history.finished(partition, epoch, offset, its_key, attempt.number, "skipped")
        return SkipHead(reason)

    def _hold(self, attempt: Attempt, error: Exception, decision: str) -> Decision:
        self._report(attempt, error, decision)
        return HoldHead(describe(error))

    def _stop(self, attempt: Attempt, error: BaseException, *, because: str = "") -> Decision:
        # Asked once more: on_error may have taken its time.
        if attempt.epoch.ended and isinstance(error, Exception):
            return self._leave(attempt, error)
        self._report(attempt, error, "the app stops")
        partition, offset, key = self._where(attempt)
        kept = self.words.kept.format(partition=partition)
        failure = HandlerFailedError(
            f"Handler {self.handler!r} failed at {partition}@{offset}, key {key}, "
            f"attempt {attempt.number}: {ended(describe(error))} {ended(kept)} "
            f"{ended(because or self.words.advice)}"
        )
        failure.__cause__ = error
        self.fatal(failure)
        return HoldHead(describe(error))

    def _leave(self, attempt: Attempt, error: Exception) -> Decision:
        """Decide nothing: the record's epoch has ended, and its next owner handles it again."""
        if not isinstance(error, SkipRecord | RetryLater):
            self._report(attempt, error, "none, because another member has the partition now")
        return HoldHead(describe(error))

    def _report(self, attempt: Attempt, error: BaseException, decision: str) -> None:
        number = attempt.number
        self.emit(HandlerFailed(*self._where(attempt), number, describe(error), decision, **raised(error)))

    def _where(self, attempt: Attempt) -> tuple[Any, int, str]:
        return attempt.epoch.partition, attempt.message.offset(), describe_key(attempt.key)

    def _record(self, attempt: Attempt) -> object:
        return own_copy(attempt.message) if self.raw else self.make_record(attempt.message, attempt.number)

    def _asked(self, attempt: Attempt, error: Exception) -> str | None:
        assert self.ask is not None
        try:
            answer = self.ask("handler", attempt.epoch.partition, self._record(attempt), error)
        except Exception as failed:  # the user's function: without its answer the policy decides
            self.emit(UserCodeFailed.of("on_error", failed))
            return None
        except BaseException as wish:  # sys.exit() and the like: an answer too
            self.emit(UserCodeFailed.of("on_error", wish))
            return STOP
        if answer is None or (isinstance(answer, str) and answer in (CONTINUE, STOP)):
            return answer
        shown = repr(answer) if isinstance(answer, str) else f"a {type(answer).__name__}"
        self.emit(
            UserCodeFailed(
                "on_error",
                f"on_error returned {shown}, which has no meaning, so on_failure decides: return "
                f"{self.words.answers}",
            )
        )
        return None
