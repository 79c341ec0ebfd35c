"""Rates out of counts, an hour of them for plots, what they mean for the future, and times in words. Pure."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ehkafka.telemetry.snapshot import Snapshot

OVER_S: Final = 10.0
LEAST_S: Final = 0.8
FALLS_OVER_S: Final = 60.0
# With less than two seconds' worth of records behind the end, an app is at it.
AT_THE_END_S: Final = 2.0
NONE: Final = "–"
# The plots have a point so often, and so many: an hour of them.
EVERY_S: Final = 5.0
POINTS_MAX: Final = 720
_NAMES: Final = ("at_s", "handled_per_s", "received_per_s", "lag_records", "backlog_records", "oldest_s")


class _Sample(NamedTuple):
    at_s: float
    handled: int
    received: int
    # By name: epoch and handled records.
    partitions: dict[str, tuple[int, int]]


def _handled(counted: dict[str, Any]) -> int:
    """Return the records that have an outcome, whichever."""
    names = ("finished_records", "skipped_records", "dead_lettered_records")
    return sum(int(counted[name]) for name in names)


class Rates:
    """Differences over the last ten seconds: those over a second would jump about."""

    def __init__(self) -> None:
        self._seen: deque[_Sample] = deque()

    def note(self, snapshot: dict[str, Any]) -> None:
        """Take the next snapshot."""
        at_s = snapshot["taken_at_s"]
        partitions = {
            partition_name(one["partition"]): (one["epoch"], _handled(one)) for one in snapshot["partitions"]
        }
        seen = _Sample(at_s, _handled(snapshot), snapshot["received_records"], partitions)
        if self._seen and (
            abs(at_s - self._seen[-1].at_s) > OVER_S or seen.received < self._seen[-1].received
        ):
            # The state was not asked for meanwhile, or the clock was put back; or a member began again.
            self._seen.clear()
        if self._seen and at_s <= self._seen[-1].at_s:
            return
        self._seen.append(seen)
        while len(self._seen) > 2 and at_s - self._seen[1].at_s >= OVER_S:
            self._seen.popleft()

    @property
    def handled_per_s(self) -> float | None:
        """Of all partitions; None before there is a difference."""
        return self._rate(self._seen[0].handled, self._seen[-1].handled) if self._seen else None

    @property
    def received_per_s(self) -> float | None:
        """As above."""
        return self._rate(self._seen[0].received, self._seen[-1].received) if self._seen else None

    def partition(self, name: str) -> float | None:
        """Of one partition; one that came back counts from its beginning again."""
        if not self._seen or (now := self._seen[-1].partitions.get(name)) is None:
            return None
        since = next(one for one in self._seen if one.partitions.get(name, (None, 0))[0] == now[0])
        over_s = self._seen[-1].at_s - since.at_s
        return max(0, now[1] - since.partitions[name][1]) / over_s if over_s >= LEAST_S else None

    def _rate(self, first: int, last: int) -> float | None:
        over_s = self._seen[-1].at_s - self._seen[0].at_s
        return (last - first) / over_s if over_s >= LEAST_S else None


@dataclass(slots=True)
class Past:
    """One thread writes, any reads a copy."""

    _points: deque[tuple[float | None, ...]] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))
    _before: tuple[float, int, int] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Take a point."""
        handled = snapshot.finished_records + snapshot.skipped_records + snapshot.dead_lettered_records
        now = (snapshot.taken_at_s, handled, snapshot.received_records)
        before, self._before = self._before, now
        if before is None or now[0] <= before[0]:
            return
        passed_s = now[0] - before[0]
        # A member that was started again counts from 0.
        rates = [max(0, new - old) / passed_s for new, old in zip(now[1:], before[1:], strict=True)]
        oldest_s = max(
            (one.oldest.age_s for one in snapshot.partitions if one.oldest is not None), default=0.0
        )
        self._points.append((now[0], *rates, snapshot.lag_records, snapshot.backlog_records, oldest_s))

    def as_dict(self) -> dict[str, Any]:
        """Return a list for each line of a plot."""
        points = list(self._points)
        return {name: [point[place] for point in points] for place, name in enumerate(_NAMES)}


def until_caught_up_s(lag_records: int, history: dict[str, Any], handled_per_s: float | None) -> float | None:
    """Return the seconds until the lag is gone: infinite where it does not fall, None where it is unknown."""
    if lag_records <= AT_THE_END_S * (handled_per_s or 0):
        return 0.0
    times, lags = history.get("at_s") or [], history.get("lag_records") or []
    known = [
        (at_s, lag)
        for at_s, lag in zip(times, lags, strict=False)
        if lag is not None and at_s >= times[-1] - FALLS_OVER_S
    ]
    if len(known) < 2 or lags[-1] is None:
        return None
    falls_per_s = (known[0][1] - known[-1][1]) / (known[-1][0] - known[0][0])
    return lag_records / falls_per_s if falls_per_s > 0 else math.inf


def partition_name(partition: dict[str, Any]) -> str:
    """Return it as actions take it."""
    return f"{partition['topic']}/{partition['partition']}"


def span(seconds: float | None) -> str:
    """Return a length of time in the two units that matter."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    if seconds < 10:
        return f"{max(0.0, seconds):.{2 if seconds < 1 else 1}f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 90:
        return _two(minutes, "min", int(seconds % 60), "s")
    hours = minutes // 60
    return _two(hours, "h", minutes % 60, "min") if hours < 36 else _two(hours // 24, "d", hours % 24, "h")


def number(value: float | None) -> str:
    """Return a number with its thousands apart; a small rate with a digit behind the point."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,.1f}" if isinstance(value, float) and 0 < value < 10 else f"{value:,.0f}"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large} {unit} {small} {smaller}" if small else f"{large} {unit}"
