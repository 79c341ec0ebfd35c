"""For how much of a time this process has looked: silence counts for no more. Pure.

A process that did not run (a suspended machine, SIGSTOP, throttled CPU time, a call that keeps the
interpreter to itself) has heard no answer, whether one came or not. So a turn of the loop that looks counts
for a small part of the silence that is reported, however long it took: the first looks after it find the
answers.
It counts for that part, too: an app that stands again and again reports a silent broker later, but does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Silence is reported after so many looks at least.
_TURNS: Final = 12


class WatchedTime:
    """When the loop came round. Its thread writes, any thread reads."""

    def __init__(self, clock: Callable[[], float], limit_s: float) -> None:
        """`limit_s`: the silence that is reported."""
        self._clock = clock
        # What a turn counts for at most.
        self._turn_s = limit_s / _TURNS
        # When the last turn began, and from when until when no turn looked. Older ones need not be known:
        # with these the limit is reached. Replaced, never changed.
        self._state: tuple[float, tuple[tuple[float, float], ...]] = (clock(), ())

    def note_turn(self) -> None:
        """Hear that a turn begins."""
        began_s, stood = self._state
        now_s = self._clock()
        if now_s - began_s > self._turn_s:
            stood = (*stood, (began_s + self._turn_s, now_s))[-_TURNS:]
        self._state = now_s, stood

    def watched_s(self, since_s: float) -> float:
        """Return for how many of the seconds since then this process has looked."""
        began_s, stood = self._state
        now_s = self._clock()
        stood_s = sum(
            max(0.0, until_s - max(from_s, since_s))
            for from_s, until_s in (*stood, (began_s + self._turn_s, now_s))
        )
        return max(0.0, now_s - since_s - stood_s)
