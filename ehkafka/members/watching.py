"""Which member has not been live for too long. Pure.

Where the supervisor did not run, and its members with it (a suspended machine, SIGSTOP of all), its first
turn afterwards knows old answers only. So a time counts as far as turns have looked (`intake.watched_time`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.intake.watched_time import WatchedTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.members.member import Member

# An interpreter that starts on a busy machine answers nothing for seconds; so long is no start.
FIRST_ANSWER_S: Final = 30.0


class Watching:
    """How long members may be silent, or answer that they are not live. Main thread."""

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
