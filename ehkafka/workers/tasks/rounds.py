"""Rounds: how much of an event loop's time the tasks of one handler take before all others have their turn.

A *round* is what the loop does between two calls of `_end`, which is once an iteration while any task serves
records. Calls that never suspend may take a millisecond of it, all tasks together: then those that have more
to do, or have not begun, wait for a later round, so that quick coroutines starve neither the loop nor each
other. Calls that suspend give way by that alone. Everything here runs on the loop's thread.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from ehkafka.lanes.inbox import Inbox

# What calls that do not suspend may take of one round, all tasks together.
ROUND_S: Final = 1e-3
# Tasks that begin in one round, at most.
PLACES_MAX: Final = 1_000


class Rounds:
    """Lets the tasks of inboxes begin, in the order in which they came, as many as have time in a round."""

    def __init__(self, loop: asyncio.AbstractEventLoop, let_in: Callable[[Inbox], None]) -> None:
        """`let_in` has the task of an inbox go on in the loop's next iteration."""
        self._loop = loop
        self._let_in = let_in
        # A call that returns in a later round than it began in has suspended.
        self.number = 0
        # When its time is over; 0 before its first call. Whether a call that did not suspend has ended later.
        self.ends_s = 0.0
        self.is_over = False
        self._waiting: deque[Inbox] = deque()
        # Those that were let in and had no time left, in order: the next round begins with them.
        self._late: list[Inbox] = []
        # How many are let in each round: half as many where some had no time, twice as many where all had.
        self._places = 1
        self._end_is_due = False

    def open(self) -> None:
        """Begin to measure, before a round's first call."""
        self.ends_s = time.perf_counter() + ROUND_S
        self._expect_end()

    def enter(self, inboxes: Iterable[Inbox]) -> None:
        """Let the tasks of these inboxes begin, once those before them have begun."""
        self._waiting.extend(inboxes)
        if not self._end_is_due:
            self._begin()

    def come_late(self, inbox: Inbox) -> None:
        """Let in first in the next round what was let in now and finds the time over."""
        self._late.append(inbox)

    def _begin(self) -> None:
        waiting, let_in = self._waiting, self._let_in
        for _ in range(min(self._places, len(waiting))):
            let_in(waiting.popleft())
        self._expect_end()

    def _expect_end(self) -> None:
        if not self._end_is_due:
            self._end_is_due = True
            # Behind the steps of all tasks that were let in.
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        self.number += 1
        self.ends_s = 0.0
        self.is_over = self._end_is_due = False
        if self._late:
            self._places = max(1, self._places // 2)
            self._waiting.extendleft(reversed(self._late))
            self._late.clear()
        elif self._waiting:
            self._places = min(2 * self._places, PLACES_MAX)
        if self._waiting:
            self._begin()
