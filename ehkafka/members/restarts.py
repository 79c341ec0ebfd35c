"""What follows when a member has ended, when it is started again, and which one is replaced when.

Pure; the supervisor asks, and reports what has happened.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ehkafka.errors import (
    ConfigurationError,
    EhkafkaError,
    EndpointError,
    FencedError,
    HandlerFailedError,
    UnfinishedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A failed handler whose policy is to stop, a wrong setting, another process with the same id: each member
# would end so, now or soon, and starting it again would repeat records or hide the error.
ENDING_ALL: Final = frozenset(
    {
        HandlerFailedError.exit_code,
        ConfigurationError.exit_code,
        FencedError.exit_code,
        EhkafkaError.exit_code,
    }
)
FIRST_S: Final = 0.2
MOST_S: Final = 30.0
# Who was a member of the group for so long, and for as long as it had waited, has recovered.
RECOVERED_S: Final = 3.0
# So many ends in a row are a loop, and no mishap.
LOOP_ENDS: Final = 5


def ends_all(exit_code: int, *, has_worked: bool, has_end: bool = False) -> bool:
    """Tell whether all members are to end with this code; `has_worked`: one of them has had an assignment.

    Before that a broker that is not there, or refuses, is most likely a mistake in the settings; afterwards
    it is an outage, which passes. `has_end`: who has not caught up because records wait says so by its code,
    and the next owner of its partitions would wait for them as long.
    """
    if has_end and exit_code == UnfinishedError.exit_code:
        return True
    return exit_code in ENDING_ALL or (exit_code == EndpointError.exit_code and not has_worked)


class Backoff:
    """How long one member waits before its next start: doubled each time, until it has had a good life."""

    def __init__(self) -> None:
        self._next_s = FIRST_S
        self.ends_in_a_row = 0

    def after(self, worked_s: float) -> float:
        """Return how many seconds to wait after a life that ended unasked, `worked_s` after it was ready."""
        if worked_s >= max(RECOVERED_S, self._next_s):
            self._next_s, self.ends_in_a_row = FIRST_S, 0
        self.ends_in_a_row += 1
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, MOST_S)
        return wait_s

    @property
    def is_loop(self) -> bool:
        """Whether it ends again and again without having worked for a while."""
        return self.ends_in_a_row >= LOOP_ENDS


class Rollover:
    """A rolling restart: members are replaced one after the other, the next only when the new one is ready.

    Which member is being replaced. Members are named by their numbers.
    """

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
