"""Decisions about a failed record: values that a policy returns and the dispatcher carries out.

Pure. A decision is made on the worker's thread, before the lane is handed in, so that no user code runs
on the poll thread or under the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane

# What the next records of a key do after one of them was dead-lettered: run, wait, or follow it.
AfterDeadLetter = Literal["continue", "hold_key", "divert_key"]


@dataclass(frozen=True, slots=True)
class HoldHead:
    """Keep the record at its lane's head without an outcome: nothing is committed past it."""

    reason: str
    # Its dead letter was refused for good: another one would be, too.
    letter_refused: bool = False


@dataclass(frozen=True, slots=True)
class RetryHead:
    """Park the lane and call the handler again when the time has come."""

    after_s: float
    reason: str
    # The handler asked for the time itself: the call does not use up one of its attempts.
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class SkipHead:
    """Give the record the outcome *skipped*: the watermark may pass it."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """The right to say, once, what became of a head that is awaited. Belongs to one head of one lane."""

    lane: Lane
    decision: AwaitHead
    # The head's own, also when the lane has gone on to another partition's record since.
    assignment: Assignment
    # The number of the call that led to it.
    attempt: int


@dataclass(frozen=True, slots=True, eq=False)
class AwaitHead:
    """Leave the record in flight without a worker until somebody answers its ticket.

    `begin(ticket)` is called once the lane is settled, outside the lock, on whichever thread settled it:
    it must be quick and must not raise. The answer goes to `Exchange.complete`.
    """

    reason: str
    begin: Callable[[Ticket], None]
    # What the key's next records do once this one is dead-lettered.
    after: AfterDeadLetter = "continue"


Decision = HoldHead | RetryHead | SkipHead | AwaitHead

# The answer to a ticket: how the record ended, or what to do with it next.
Answer = Outcome | Decision
