"""How long the poll thread may wait for the broker. Pure; the poll thread's alone.

`consume()` cannot be woken. So the wait is short while something must be watched or just moved, and as long
as an idle one when all that is left to look for is somebody else's next step: a handler that returns, a free
worker, room for a paused partition. Workers wake each other; the poll thread is late for the resume at most.
Looked at each millisecond, such waiting cost 7 to 30 % of a core; it costs less than 1 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

BUSY_POLL_S: Final = 1e-3
"""While something must be watched, such as a chunk whose record may run long."""

IDLE_POLL_S: Final = 50e-3
"""What nothing waits longer for: a stop, a commit that is due, a partition that may be resumed."""


class PollWait:
    """Doubles the wait from turn to turn while work waits and nothing of it moves."""

    def __init__(self) -> None:
        self._seen: Hashable = None
        self._wait_s = BUSY_POLL_S

    def next_s(self, *, is_watched: bool, waits: bool, moved: Hashable, until_due_s: float | None) -> float:
        """Return the next wait.

        `is_watched`: something must be seen within a millisecond. `waits`: work waits for somebody. `moved`
        is another value whenever any of it has moved. `until_due_s`: a timer ends then.
        """
        has_moved, self._seen = moved != self._seen, moved
        if is_watched or (waits and has_moved):
            self._wait_s = BUSY_POLL_S
        elif waits:
            self._wait_s = min(2 * self._wait_s, IDLE_POLL_S)
        else:
            self._wait_s = IDLE_POLL_S
        wait_s = self._wait_s if until_due_s is None else min(self._wait_s, until_due_s)
        return max(BUSY_POLL_S, wait_s)
