"""Calls of the handler, and decisions about those that failed: a policy returns them, the dispatcher obeys.

Pure. A decision is made on the worker's thread, before the dispatcher takes the record over, so that no user
code runs on the poll thread or under the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records import Message

# What the next records of a key do after one of them was dead-lettered: run, wait, or follow it.
AfterDeadLetter = Literal["continue", "hold_key", "divert_key"]


class Attempt:
    """A record and one call for it. What callers, failure policies and deferrals are given."""

    __slots__ = ("asked", "entry", "number")

    def __init__(self, entry: Entry, number: int = 1, asked: int = 0) -> None:
        """`number`: 1 for the first; `asked`: how many of the calls before it only asked for time.

        Such a call uses up no attempt.
        """
        self.entry = entry
        self.number = number
        self.asked = asked

    @property
    def message(self) -> Message:
        """The record's message."""
        return self.entry[MESSAGE]

    @property
    def key(self) -> Hashable:
        """The value that orders the record; it may be of a user's type."""
        return self.entry[KEY]

    @property
    def epoch(self) -> Epoch:
        """The assignment that the record is of."""
        return self.entry[EPOCH]


class Attempts:
    """The calls of one record that have not ended it."""

    __slots__ = ("asked", "failed", "last_error", "together_max")

    def __init__(self) -> None:
        # Calls that failed; of these, how many only asked for time.
        self.failed = 0
        self.asked = 0
        self.last_error = ""
        # How many records a batch with it may have, since one has raised; None: as many as ever.
        self.together_max: int | None = None

    @property
    def reason(self) -> str:
        """Return why it waits."""
        return self.last_error or "the handler raised for its batch"


@dataclass(frozen=True, slots=True)
class HoldHead:
    """Keep the record without a result, in front of its key's others: nothing is committed past it."""

    reason: str
    # Its dead letter was refused for good: another one would be, too.
    letter_refused: bool = False


@dataclass(frozen=True, slots=True)
class RetryHead:
    """Let the key wait and call the handler again when the time has come."""

    after_s: float
    reason: str
    # The handler asked for the time itself: the call does not use up one of its attempts.
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class SkipHead:
    """Give the record the result *skipped*: commits may pass it."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """The right to answer, once, what became of a waiting key's first record."""

    held: Held
    decision: AwaitHead
    # The call that led to it; the record's own epoch, also when the key waits with another one's by now.
    attempt: Attempt


@dataclass(frozen=True, slots=True, eq=False)
class AwaitHead:
    """Leave the record in flight without a worker until its ticket is answered.

    `begin(ticket)` is called once the dispatcher has taken the record over, without the lock, on any thread:
    it must be quick and must not raise. The answer goes to `Hub.answer`.
    """

    reason: str
    begin: Callable[[Ticket], None]
    # What the key's next records do once this one is dead-lettered.
    after: AfterDeadLetter = "continue"


Decision = HoldHead | RetryHead | SkipHead | AwaitHead

# The answer to a ticket: how the record ended, or what to do with it next.
Answer = Outcome | Decision
