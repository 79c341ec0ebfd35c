"""Letters that wait for their answer, and which of them have waited too long.

One for each way to the dead letters. Any thread may call; the lock is held for a few fields, no user code
runs under it. It needs no answer of whoever writes: a function that hangs, or a broker that is silent, is
noticed by the thread that looks.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from ehkafka.events import DeadLetterFailed
from ehkafka.lanes.order import describe_key
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.decision import Ticket
    from ehkafka.records import TopicPartition

LATE_S: Final = 10.0
"""How long a letter may wait for its answer before that is reported."""


class _Waiting(NamedTuple):
    origin: TopicPartition
    offset: int
    since_s: float


class Unanswered:
    """Remembers each letter from its posting to its answer; bounded by the backlog."""

    def __init__(self, where: str, clock: Callable[[], float]) -> None:
        self._where = where
        self._clock = clock
        # Says why nothing is answered, as far as that is known. Set once, before the first letter.
        self.why: Callable[[], str] = lambda: "no answer yet"
        self._lock = threading.Lock()
        # Under the lock, both oldest first: not reported yet, and reported.
        self._young: dict[Ticket, _Waiting] = {}
        self._late: dict[Ticket, _Waiting] = {}

    def posted(self, ticket: Ticket, origin: TopicPartition, offset: int) -> None:
        """Note a letter that was handed over."""
        with self._lock:
            self._young[ticket] = _Waiting(origin, offset, self._clock())

    def answered(self, ticket: Ticket) -> None:
        """Note that its record has its answer, whichever."""
        with self._lock:
            if self._young.pop(ticket, None) is None:
                self._late.pop(ticket, None)

    def take_late(self) -> list[DeadLetterFailed]:
        """Return an event for each letter that has waited too long by now, once each."""
        late: list[tuple[Ticket, _Waiting]] = []
        with self._lock:
            before_s = self._clock() - LATE_S
            while self._young:
                ticket, waiting = next(iter(self._young.items()))
                if waiting.since_s > before_s:
                    break
                self._late[ticket] = self._young.pop(ticket)
                late.append((ticket, waiting))
        # A key is described by its own `__repr__`, which is user code.
        return [self._event(ticket, waiting) for ticket, waiting in late]

    def _event(self, ticket: Ticket, waiting: _Waiting) -> DeadLetterFailed:
        error = f"it has not been acknowledged for {LATE_S:.0f} s: {self.why()}"
        key = describe_key(ticket.attempt.key)
        return DeadLetterFailed(waiting.origin, waiting.offset, key, self._where, error, retry_s=0.0)

    @property
    def problem(self) -> str | None:
        """What is wrong, while a letter of ours has waited too long. From any thread."""
        with self._lock:
            # Of a partition that was taken away another member decides.
            late = [waiting for ticket, waiting in self._late.items() if not ticket.attempt.epoch.ended]
        if not late:
            return None
        oldest = late[0]
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return (
            f"The dead letter of {oldest.origin}@{oldest.offset}{more} has not been acknowledged by "
            f"{self._where} for {self._clock() - oldest.since_s:.0f} s, and nothing is committed past it: "
            f"{ended(self.why())}"
        )
