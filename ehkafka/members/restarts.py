"""What follows when a member has ended, and how long it waits before it is started again. Pure."""

from __future__ import annotations

from typing import Final

from ehkafka.errors import (
    ConfigurationError,
    EhkafkaError,
    EndpointError,
    FencedError,
    HandlerFailedError,
    UnfinishedError,
)

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
