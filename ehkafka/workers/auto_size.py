"""How many workers a handler is to have, found out by trying. Pure; time comes in as an argument.

Nothing but the rate tells what another worker is worth: a handler may compute, sleep, or wait for a server
that serves no more than it does. So while records wait and all workers are busy, another number is tried for
a moment and kept if it brings more, or, where the CPU is full, if fewer do as much. Each failed try makes
the next one of its kind come later, so at a steady load the number hardly moves: by a fifth at most, and
every few minutes. Where no record waits nothing is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ehkafka.workers.auto import Bounds

# Seconds after a resize that do not count, then the seconds over which the number is judged.
SETTLE_S: Final = 0.5
WINDOW_S: Final = 1.0
# What counts as more, and as no less: rates move by some percent of themselves.
GAIN: Final = 1.05
LOSS: Final = 0.97
# Cores that the process uses where threads of Python can hardly use more.
FULL_CORES: Final = 0.85
# From one number to the next: as long as each try succeeds, and once one has failed.
STRIDE: Final = 2.0
STEP: Final = 1.2
# After a try without gain, until the next one of its kind.
PAUSE_MIN_S: Final = 5.0
PAUSE_MAX_S: Final = 300.0
# A rate that has moved by such a share is another load's, and so is one after such a rest: all is tried anew.
OTHER_LOAD: Final = 0.3
REST_S: Final = 30.0
# Workers that nothing needed for so long are let go, down to so many times what was needed at once.
UNUSED_S: Final = 60.0
UNUSED_TIMES: Final = 2


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The counts of a handler and its process at one moment."""

    at_s: float
    finished_records: int
    cpu_s: float
    # Workers that have a record now, and whether other records wait for one.
    busy: int
    is_waited_for: bool


class _Way:
    """More workers, or fewer: how far a try goes, and when the next one may be."""

    def __init__(self) -> None:
        self.stride = STRIDE
        self.due_s = float("-inf")
        self._pause_s = PAUSE_MIN_S

    def has_worked(self) -> None:
        self.due_s = float("-inf")
        self._pause_s = PAUSE_MIN_S

    def has_failed(self, now_s: float) -> None:
        self.stride = STEP
        self.due_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)


class _Try(NamedTuple):
    """A number that works for a moment: which one it replaces, and the rate that it must reach to stay."""

    before: int
    wanted_per_s: float
    way: _Way


class AutoSize:
    """The number of one handler's workers: `size` is the wanted one."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self.size = bounds.first
        self._more, self._fewer = _Way(), _Way()
        self._try: _Try | None = None
        # Where the window begins, None before its first look; not sooner than so.
        self._begun: LoadSample | None = None
        self._counts_from_s = float("-inf")
        # Whether at each look of the window all workers were busy and records waited; when that was last so.
        self._is_short = True
        self._was_short_s = float("-inf")
        # The rate of the best number so far, so that many small losses do not add up.
        self._best_per_s = 0.0
        # The most workers that were busy at once since then.
        self._busy_max = 0
        self._busy_since_s = float("inf")

    @property
    def is_trying(self) -> bool:
        """Whether the number works on trial, and may be taken back."""
        return self._try is not None

    def next_size(self, seen: LoadSample) -> int:
        """Return how many workers there are to be; asked a few times a second."""
        self._busy_max = max(self._busy_max, seen.busy)
        self._busy_since_s = min(self._busy_since_s, seen.at_s)
        if seen.at_s < self._counts_from_s:
            return self.size
        if (begun := self._begun) is None:
            self._begun, self._is_short = seen, True
            return self.size
        self._is_short &= seen.is_waited_for and seen.busy >= self.size
        window_s = seen.at_s - begun.at_s
        if window_s < WINDOW_S:
            return self.size
        per_s = (seen.finished_records - begun.finished_records) / window_s
        cores = (seen.cpu_s - begun.cpu_s) / window_s
        size = self._after_window(seen.at_s, per_s, is_full=cores >= FULL_CORES)
        self._begun, self._is_short = seen, True
        if size != self.size:
            self.size = size
            self._begun, self._counts_from_s = None, seen.at_s + SETTLE_S
        return size

    def _after_window(self, now_s: float, per_s: float, *, is_full: bool) -> int:
        tried, self._try = self._try, None
        if tried is not None and not self._has_worked(tried, now_s, per_s):
            return tried.before
        if not self._is_short:
            return self._without_unused(now_s)
        if self._is_other_load(now_s, per_s):
            self._more, self._fewer, self._best_per_s = _Way(), _Way(), per_s
        self._was_short_s = now_s
        best_per_s = max(self._best_per_s, per_s)
        # Where the CPU is full, what more workers do first is to fight for it.
        if is_full and now_s >= self._fewer.due_s and self.size > self._bounds.least:
            size = max(self._bounds.least, min(self.size - 1, int(self.size / self._fewer.stride)))
            self._try = _Try(self.size, LOSS * best_per_s, self._fewer)
            return size
        if now_s >= self._more.due_s and self.size < self._bounds.most:
            size = min(self._bounds.most, max(self.size + 1, int(self.size * self._more.stride)))
            self._try = _Try(self.size, GAIN * per_s, self._more)
            return size
        return self.size

    def _has_worked(self, tried: _Try, now_s: float, per_s: float) -> bool:
        # Where no record waits any more the number is enough, whatever the rate.
        has_worked = per_s >= tried.wanted_per_s or not self._is_short
        if has_worked:
            tried.way.has_worked()
            self._best_per_s = max(self._best_per_s, per_s)
        else:
            tried.way.has_failed(now_s)
        return has_worked

    def _is_other_load(self, now_s: float, per_s: float) -> bool:
        is_other = abs(per_s - self._best_per_s) > OTHER_LOAD * self._best_per_s
        return is_other or now_s - self._was_short_s > REST_S

    def _without_unused(self, now_s: float) -> int:
        if now_s - self._busy_since_s < UNUSED_S:
            return self.size
        needed, self._busy_max, self._busy_since_s = self._busy_max, 0, now_s
        return min(self.size, max(self._bounds.first, UNUSED_TIMES * needed))
