"""Deferred records of one handler: from the handler's return to the answer.

A worker asks `awaits` when a handler has returned while something is deferred, and calls `void` when it
raised. From then on the record waits without a worker, in front of its key's others. The answer is decided on
the thread that gives it: no user code runs on the poll thread, which only looks for what has expired.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.events import DeferredAnswerDropped, UserCodeFailed
from ehkafka.lanes.decision import AwaitHead, HoldHead
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.outputs.unacknowledged import NotSentError
from ehkafka.records import Outcome
from ehkafka.records.deferral import DEFERRED, add_keeper, drop_keeper
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Attempt, Decision, Ticket
    from ehkafka.lanes.held import Held
    from ehkafka.records import Message, TopicPartition
    from ehkafka.records.deferral import Deferred, State

    TakeAnswer = Callable[[Ticket, Answer], None]

AWAITED = "deferred: neither finish() nor fail() was called yet"
_WHY_LATE: dict[State, str] = {
    "void": "the handler had raised after it deferred the record, so the attempt failed",
    "expired": "the attempt's deadline had passed, so the attempt had failed",
}


@dataclass(kw_only=True, eq=False)
class PendingAnswers:
    """One handler's deferred records. `answer` is its hub's."""

    answer: TakeAnswer
    failures: Callable[[Attempt, BaseException], Decision]
    emit: Callable[[Event], None]
    history: History | None = None
    # Tells whether a record is with its handler, as `Keeper.is_handling` does.
    is_running: Callable[[Message], bool | None] = lambda _message: None
    clock: Callable[[], float] = time.monotonic
    # Hears how a deferred attempt has ended, before its record does: what it has sent is put, or dropped.
    # Raises `NotSentError` where that is too late.
    on_end: Callable[[Message, BaseException | None], None] = lambda _message, _error: None
    # Tokens that wait for an answer. Workers add, the answering thread removes; the poll thread reads copies.
    waiting: dict[Deferred, DeferredHead] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Let `defer` ask about this handler's records."""
        add_keeper(self)

    def close(self) -> None:
        """Be asked no more: the run has ended."""
        drop_keeper(self)

    def is_handling(self, message: Message) -> bool | None:
        """Tell whether a record is with its handler now; None where that is not known. Any thread."""
        return self.is_running(message)

    def awaits(self, attempt: Attempt) -> AwaitHead | None:
        """Return how a record waits that was deferred by its call, which has just returned; None: it was not.

        By the record's worker. Raises the error of a token that was failed before the call returned.
        """
        token = DEFERRED.pop(id(attempt.message), None)
        if token is None:
            return None
        # `defer` knows no run; from here on the deadline is one of this run's clock.
        token.expires_at_s += self.clock() - time.monotonic()
        head = DeferredHead(self, attempt, token)
        self.waiting[token] = head
        if token.settle_at(head):
            return AwaitHead(AWAITED, head.begin)
        # Answered before the call returned: the worker continues as if the record had never been deferred.
        del self.waiting[token]
        head.report_history(token.error)
        self.on_end(attempt.message, token.error)
        if token.error is not None:
            head.restore()
            raise token.error
        return None

    def void(self, attempt: Attempt) -> None:
        """Forget the token of a record whose call has raised: that counts. By the record's worker."""
        token = DEFERRED.pop(id(attempt.message), None)
        if token is not None:
            token.close("void", DeferredHead(self, attempt, token))

    def held(self) -> set[Held]:
        """Return the keys whose first records wait for an answer. Any thread."""
        heads = self.waiting.copy().values()
        return {ticket.held for head in heads if (ticket := head.ticket) is not None}

    def earliest_due_s(self) -> float | None:
        """Return when the next deadline passes; None where nothing waits. Any thread."""
        return min((token.expires_at_s for token in self.waiting.copy()), default=None)

    def take_expired(self) -> list[DeferredHead]:
        """Return the heads whose deadline has passed, each once, for `DeferredHead.expire`. Poll thread."""
        now_s = self.clock()
        expired = [token for token in self.waiting.copy() if token.expires_at_s <= now_s]
        for token in [token for token in DEFERRED.copy().values() if token.expires_at_s <= now_s]:
            self._report_unclaimed(token)
        heads = (self.waiting.pop(token, None) for token in expired)
        return [head for head in heads if head is not None]

    def _report_unclaimed(self, token: Deferred) -> None:
        if not token.is_reported:
            token.is_reported = True
            text = (
                f"the deadline of {token!r}, {seconds(token.deadline_s)}, has passed before the handler "
                "that called defer() has returned. Call defer() only within the record's own handler, and "
                "return from the handler soon"
            )
            self.emit(UserCodeFailed("defer", text))


class DeferredHead:
    """One deferred attempt."""

    def __init__(self, pending: PendingAnswers, attempt: Attempt, token: Deferred) -> None:
        self._pending = pending
        self._attempt = attempt
        self._token = token
        # As a message of the handler's own may read otherwise by the time of the answer.
        self._what: tuple[TopicPartition, int, int, Hashable, int] = (
            attempt.epoch.partition,
            attempt.epoch.number,
            attempt.message.offset(),
            users_key(attempt.key),
            attempt.number,
        )
        # Written under the lock: whichever of ticket and answer comes second answers the ticket.
        self._lock = threading.Lock()
        self.ticket: Ticket | None = None
        self._answer: Answer | None = None

    def begin(self, ticket: Ticket) -> None:
        """Take the ticket of the waiting record. On any thread, maybe the poll thread."""
        with self._lock:
            self.ticket = ticket
            answer = self._answer
        if answer is not None:
            self._pending.answer(ticket, answer)

    def answered(self, error: BaseException | None) -> None:
        """Decide, on the answering thread, and answer the ticket."""
        self._pending.waiting.pop(self._token, None)
        self.report_history(error)
        answer = self._judge(error)
        with self._lock:
            self._answer = answer
            ticket = self.ticket
        if ticket is not None:
            self._pending.answer(ticket, answer)

    def expire(self) -> None:
        """Let the attempt fail because no answer came in time. On the hook thread: a policy may be asked."""
        token = self._token
        if token.close("expired"):
            self.answered(
                TimeoutError(
                    f"the record was deferred, but its result was not given within its deadline of "
                    f"{seconds(token.deadline_s)}"
                )
            )

    def late(self, state: State) -> None:
        """Tell of an answer that counts for nothing."""
        partition, _, offset, key, attempt = self._what
        dropped = DeferredAnswerDropped(partition, offset, describe_key(key), attempt, _WHY_LATE[state])
        self._pending.emit(dropped)

    def report_history(self, error: BaseException | None) -> None:
        """Tell the end of the attempt, which the handler's return was not."""
        if self._pending.history is not None:
            self._pending.history.finished(*self._what, "finished" if error is None else "failed")

    def _judge(self, error: BaseException | None) -> Answer:
        try:
            self._pending.on_end(self._attempt.message, error)
        except NotSentError as too_late:
            return HoldHead(str(too_late))
        if error is None:
            return Outcome.FINISHED
        if self._attempt.epoch.ended:
            # Another member has the record now and decides on it; here the answer counts for nothing.
            return HoldHead("its partition was taken away")
        self.restore()
        return self._pending.failures(self._attempt, error)

    def restore(self) -> None:
        """Undo what a handler of messages has set in its own, for policies and the next call."""
        if self._token.received is not None:
            self._token.received.restore()
