"""A rolling restart: members are replaced one after the other, the next only when the new one is ready.

A pure state machine that the supervisor asks, and tells what has happened.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Rollover:
    """Which member is being replaced. Members are named by their numbers."""

    def __init__(self) -> None:
        self._waiting: deque[int] = deque()
        self.current: int | None = None
        # The current one's old process has ended: the next one that is ready under its number is new.
        self._has_ended = False

    def begin(self, numbers: Iterable[int]) -> None:
        """Replace all of these. Of a restart that is not over, those that were replaced come once more."""
        self._waiting.extend(number for number in numbers if number not in self._waiting)

    @property
    def is_active(self) -> bool:
        """Whether any member is still to be replaced, or being so."""
        return self.current is not None or bool(self._waiting)

    def next_to_stop(self, is_running: Callable[[int], bool], is_ready: Callable[[int], bool]) -> int | None:
        """Return whose process is to be stopped now; None while somebody else is being replaced.

        Who has no process just then is about to be started anyway: only that is waited for.
        """
        if self.current is not None and self._has_ended and is_ready(self.current):
            self.current = None
        if self.current is not None or not self._waiting:
            return None
        self.current, self._has_ended = self._waiting.popleft(), False
        if is_running(self.current):
            return self.current
        self._has_ended = True
        return None

    def ended(self, number: int) -> bool:
        """Hear that a member's process has ended; tell whether it was the one to be replaced."""
        if number != self.current or self._has_ended:
            return False
        self._has_ended = True
        return True

    def cancel(self) -> None:
        """Replace nobody any more: all of them stop."""
        self._waiting.clear()
        self.current = None
