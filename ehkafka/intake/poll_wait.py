"""How long the poll thread may wait for the broker, and how long its loop stood. Pure; time is an argument.

`consume()` cannot be woken. So the wait is short while something must be watched or just moved, and as long
as an idle one when all that is left to look for is the next step of another thread: a handler that returns,
a free worker, room for a paused partition. Workers wake each other; the poll thread is late for the resume at
most.
Looked at each millisecond, such waiting cost 7 to 30 % of a core; it costs less than 1 %.

The poll thread writes. Any thread reads the longest time between two turns, of late: a loop that stands loses
its partitions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

BUSY_POLL_S: Final = 1e-3
"""While something moves that a paused partition waits for."""

WATCHED_POLL_S: Final = 5e-3
"""While records wait behind others, which may run long, and any of them moves.

Once nothing has moved for a while, all that can move has been given to consumers that are free; one that
becomes free asks for more itself."""

IDLE_POLL_S: Final = 50e-3
"""The longest wait before a stop, a commit that is due, or the resume of a partition."""

REST_POLL_S: Final = 0.2
"""The longest wait of a stop or a command if the app has been idle for a while."""


# For how long nothing has moved then; and between two looks at the logs: two of these and a statistics'
# interval are within the time for which a log's end counts as known.
REST_AFTER_S: Final = 2.0
REST_CHECK_S: Final = 2.0


class Rest:
    """Whether an app has had nothing to do for a while: then partitions and turns are to cost little."""

    def __init__(self, unreachable_s: float = math.inf) -> None:
        """`unreachable_s`: silence of so long is reported; of a short one there must be many turns."""
        self.wait_s = max(IDLE_POLL_S, min(REST_POLL_S, unreachable_s / 24))
        self._check_s = min(REST_CHECK_S, unreachable_s / 6)
        self._next_check_s = 0.0
        self._seen: Hashable = None
        self._since_s = 0.0
        self.is_now = False

    def note(self, moved: Hashable, now_s: float, *, is_idle: bool) -> None:
        """Take whether there is nothing to do, twice a second; `moved` as in `PollWait`."""
        if moved != self._seen or not is_idle:
            self._seen, self._since_s = moved, now_s
        self.is_now = now_s - self._since_s >= REST_AFTER_S

    def wants_check(self, now_s: float, *, is_asked: bool = False) -> bool:
        """Tell whether to check the logs now. `is_asked`: an answer about them is to come."""
        if self.is_now and not is_asked and now_s < self._next_check_s:
            return False
        self._next_check_s = now_s + self._check_s
        return True


class PollWait:
    """Doubles the wait from turn to turn while work waits and nothing of it moves."""

    def __init__(self, rest: Rest | None = None) -> None:
        self.rest = rest or Rest()
        self._seen: Hashable = None
        self._wait_s = BUSY_POLL_S

    def next_s(self, *, is_watched: bool, waits: bool, moved: Hashable, until_due_s: float | None) -> float:
        """Return the next wait.

        `is_watched`: records wait in inboxes. `waits`: a partition waits for room. `moved`
        is another value whenever any of it has moved. `until_due_s`: a timer ends then.
        """
        has_moved, self._seen = moved != self._seen, moved
        if waits and has_moved:
            self._wait_s = BUSY_POLL_S
        elif is_watched and has_moved:
            self._wait_s = WATCHED_POLL_S
        elif waits or is_watched:
            self._wait_s = min(2 * self._wait_s, IDLE_POLL_S)
        else:
            self._wait_s = self.rest.wait_s if self.rest.is_now and not has_moved else IDLE_POLL_S
        wait_s = self._wait_s if until_due_s is None else min(self._wait_s, until_due_s)
        return max(BUSY_POLL_S, wait_s)


# A gap is shown for at least so long and at most twice that: longer than between two looks at the metrics.
WINDOW_S: Final = 60.0


class PollGap:
    """The longest gap of this window and the one before."""

    __slots__ = ("_before_s", "_began_s", "_longest_s")

    def __init__(self, now_s: float) -> None:
        self._began_s = now_s
        self._longest_s = 0.0
        self._before_s = 0.0

    def note(self, gap_s: float, now_s: float) -> None:
        """Take a gap that has just ended."""
        if now_s - self._began_s >= WINDOW_S:
            # What is older than two windows counts no more.
            self._before_s = self._longest_s if now_s - self._began_s < 2 * WINDOW_S else 0.0
            self._longest_s, self._began_s = 0.0, now_s
        self._longest_s = max(self._longest_s, gap_s)

    def longest_s(self, open_s: float) -> float:
        """Return the longest, or the one that is still open."""
        return max(self._longest_s, self._before_s, open_s)
