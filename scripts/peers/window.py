"""The arithmetic of a steady window: a warm-up, then what was handled between two looks.

A side says four times a second how many records it has handled. The window begins with the first such line
after the warm-up, which starts with the first handled record, and ends so many seconds later, or just before
the topic has nothing left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHORTEST_S = 0.7
# Where in a line's distribution its four latencies stand.
PLACES = (0.5, 0.99, 0.999, 1.0)


class WindowError(Exception):
    """What a side says cannot be right; the message says what it was."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a side says at one moment."""

    at_s: float
    handled: int
    failed: int = 0
    latency_ms: tuple[float, ...] = ()
    # Of how many records.
    latencies: int = 0

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Line:
        """Check a side's line and take it."""
        numbers = (given.get("at_s"), given.get("handled"), given.get("failed", 0))
        if not all(isinstance(one, int | float) for one in numbers):
            raise WindowError(f"a line needs numbers for at_s and handled, and has {dict(given)!r}")
        latency_ms = tuple(given.get("latency_ms") or ())
        if latency_ms and (len(latency_ms) != len(PLACES) or list(latency_ms) != sorted(latency_ms)):
            raise WindowError(f"latency_ms is [p50, p99, p99.9, max], and was {list(latency_ms)}")
        latencies = given.get("latencies", 0)
        if not isinstance(latencies, int) or (latencies > 0) != bool(latency_ms):
            raise WindowError(f"latencies is how many latency_ms is of, and was {latencies!r}")
        failed = int(given.get("failed", 0))
        return cls(float(given["at_s"]), int(given["handled"]), failed, latency_ms, latencies)


@dataclass
class Window:
    """Takes a side's lines, and knows when to look."""

    warm_s: float
    seconds: float
    # How many records the topic has; None: more come all the time.
    records: int | None = None
    lines: list[Line] = field(default_factory=list)
    _before: Line | None = None
    _first_s: float | None = None

    def add(self, line: Line) -> str:
        """Take a line; return "waiting", "warm", "begin", "counting" or "end".

        Raises `WindowError` where a count or the clock goes back, or the topic was too small.
        """
        before, self._before = self._before, line
        if before is not None and (line.at_s <= before.at_s or line.handled < before.handled):
            raise WindowError(f"{line} came after {before}: time and count never go back")
        if not line.handled:
            return "waiting"
        if self._first_s is None:
            self._first_s = line.at_s
        is_last = self._has_nothing_left(before, line)
        if not self.lines:
            if is_last and self.warm_s:
                raise WindowError(
                    f"the topic's {self.records:,} records were handled before the warm-up ended"
                )
            if line.at_s < self._first_s + self.warm_s:
                return "warm"
            self.lines.append(line)
            return "begin"
        self.lines.append(line)
        if line.at_s - self.lines[0].at_s >= self.seconds:
            return "end"
        if not is_last:
            return "counting"
        if line.at_s - self.lines[0].at_s < SHORTEST_S:
            raise WindowError(f"the topic's {self.records:,} records lasted for too short a window")
        return "end"

    def _has_nothing_left(self, before: Line | None, line: Line) -> bool:
        """Whether the next line might find the topic's end."""
        if self.records is None or before is None:
            return False
        return line.handled + 1.5 * (line.handled - before.handled) > self.records

    def figures(self) -> dict[str, Any]:
        """Return what the window shows."""
        first, last = self.lines[0], self.lines[-1]
        seconds, records = last.at_s - first.at_s, last.handled - first.handled
        rates = [
            (late.handled - early.handled) / (late.at_s - early.at_s) for early, late in pairwise(self.lines)
        ]
        found: dict[str, Any] = {
            "seconds": round(seconds, 3),
            "records": records,
            "records_per_s": records / seconds,
            # A stall shows here.
            "least_per_s": min(rates),
        }
        if last.failed:
            found["failed_per_s"] = (last.failed - first.failed) / seconds
        # A line may have latencies and nothing newly handled: all handlers that it saw begin are still at it.
        parts = [(line.latency_ms, line.latencies) for line in self.lines[1:] if line.latency_ms]
        if parts:
            names = ("p50_ms", "p99_ms", "p999_ms")
            found |= {name: mixed_quantile(parts, at) for name, at in zip(names, PLACES, strict=False)}
            found["max_ms"] = max(latency_ms[-1] for latency_ms, _ in parts)
        return found


def mixed_quantile(parts: Sequence[tuple[Sequence[float], int]], place: float) -> float:
    """Return a quantile of all records, of which each part gives p50, p99, p99.9, max and how many they are.

    A part counts as a distribution that rises in a straight line from 0 over its four points. So a part with
    a stall weighs as much as its records, where a median of the parts' p99 would lose it.
    """
    total = sum(number for _, number in parts)
    low, high = 0.0, max(points[-1] for points, _ in parts)
    for _ in range(60):
        middle = (low + high) / 2
        below = sum(_share_below(points, middle) * number for points, number in parts)
        low, high = (low, middle) if below >= place * total else (middle, high)
    return high


def _share_below(points: Sequence[float], value: float) -> float:
    before_value, before_place = 0.0, 0.0
    for point, place in zip(points, PLACES, strict=True):
        if value < point:
            part = (value - before_value) / (point - before_value)
            return before_place + (place - before_place) * part
        before_value, before_place = point, place
    return 1.0
