"""What follows when a member has ended or hangs, when it is started again, and which one is replaced when.

Pure; the supervisor asks, and reports what has happened.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ehkafka import errors
from ehkafka.errors import (
    ConfigurationError,
    EhkafkaError,
    EndpointError,
    EngineError,
    FencedError,
    HandlerFailedError,
    UnfinishedError,
)
from ehkafka.intake.watched_time import WatchedTime
from ehkafka.wording import ended
from ehkafka.workers.processes.link import how_it_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ehkafka.members.member import Member

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
# An interpreter that starts on a busy machine answers nothing for seconds; so long is no start.
FIRST_ANSWER_S: Final = 30.0
# For who ended without a word.
_BY_CODE: Mapping[int, type[EhkafkaError]] = {
    kind.exit_code: kind
    for kind in (EhkafkaError, ConfigurationError, EndpointError, UnfinishedError, FencedError, EngineError)
}


def ends_all(exit_code: int, *, has_worked: bool, has_end: bool = False) -> bool:
    """Tell whether all members are to end with this code; `has_worked`: one of them has had an assignment.

    Before that a broker that is not there, or refuses, is most likely a mistake in the settings; afterwards
    it is an outage, which passes. `has_end`: a member's code says that it has not caught up
    because records wait, and the next owner of its partitions would wait for them as long.
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
        """Return whose process is to be stopped now; None while another one is being replaced.

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
        """Replace no member any more: all of them stop."""
        self._waiting.clear()
        self.current = None


class Watching:
    """How long members may be silent, or answer that they are not live. Main thread.

    Where the supervisor did not run, and its members with it (a suspended machine, SIGSTOP of all), its first
    turn afterwards knows old answers only. So a time counts as far as turns have looked.
    """

    def __init__(self, hung_s: float, now_s: Callable[[], float]) -> None:
        starts_s = max(hung_s, FIRST_ANSWER_S)
        # For a process that has answered, and for one that has not yet: what a turn counts for differs.
        self._answering = hung_s, WatchedTime(now_s, hung_s)
        self._starting = starts_s, WatchedTime(now_s, starts_s)

    def note_turn(self) -> None:
        """Hear that a turn of the supervisor begins."""
        for _, watched in (self._answering, self._starting):
            watched.note_turn()

    def hung_s(self, member: Member) -> float | None:
        """Return for how long a member has not been live, where that is too long."""
        limit_s, watched = self._starting if member.answered_s is None else self._answering
        for_s = watched.watched_s(member.live_until_s)
        return for_s if for_s >= limit_s else None


def failure_of(number: int, exit_code: int, farewell: Mapping[str, object] | None) -> EhkafkaError:
    """Return what a member's end means for the supervisor."""
    kind = _kind(exit_code, farewell)
    return kind(f"Member {number}: {_text(exit_code, farewell)}")


def described(exit_code: int, farewell: Mapping[str, object] | None) -> str:
    """Return how a process has ended, for a line of the log."""
    how = how_it_ended(exit_code)
    return how if farewell is None else f"{how}: {_text(exit_code, farewell)}"


def _text(exit_code: int, farewell: Mapping[str, Any] | None) -> str:
    if farewell is None:
        return f"it ended by {how_it_ended(exit_code)}."
    at = f" (raised in {farewell['place']})" if farewell["place"] else ""
    return ended(f"{farewell['text'].removesuffix('.')}{at}")


def _kind(exit_code: int, farewell: Mapping[str, Any] | None) -> type[EhkafkaError]:
    named = getattr(errors, farewell["kind"], None) if farewell is not None else None
    if isinstance(named, type) and issubclass(named, EhkafkaError) and named.exit_code == exit_code:
        return named
    # What was killed has left something.
    return _BY_CODE.get(exit_code, UnfinishedError if exit_code < 0 else EngineError)
