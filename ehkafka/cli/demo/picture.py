"""One moment of the demo: a snapshot, and the rates between it and the ones before.

Pure. Made on the session's thread, read by whoever shows it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ehkafka.cli.demo.plan import DemoPlan
    from ehkafka.telemetry import PartitionSnapshot, Snapshot
    from ehkafka.testing import Verdict

# A rate is the mean over this long: shorter ones jump, longer ones lie about what happens now.
RATE_WINDOW_S: Final = 1.0
# Values kept for the small curve.
CURVE_POINTS: Final = 60
CURVE_POINT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown. Rates are finished records per second."""

    plan: DemoPlan
    snapshot: Snapshot
    elapsed_s: float
    stored_records: int
    rate_per_s: float
    partition_rates_per_s: tuple[float, ...]
    curve: tuple[float, ...]
    # Without what is still missing; None until it is known.
    verdict: Verdict | None
    phase: str

    @property
    def oldest(self) -> PartitionSnapshot | None:
        """The partition whose oldest unfinished record has waited longest."""
        waiting = [one for one in self.snapshot.partitions if one.oldest is not None]
        return max(waiting, key=lambda one: one.oldest.age_s if one.oldest else 0.0, default=None)


class Meter:
    """Turns snapshots into rates and remembers the highest values."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int, tuple[int, ...]]] = deque()
        self._curve: deque[float] = deque(maxlen=CURVE_POINTS)
        self._next_point_s = 0.0
        self.lanes_max = 0
        self.lag_records_max = 0
        self.backlog_records_max = 0

    def add(self, snapshot: Snapshot) -> None:
        """Take a snapshot; each is later than the one before."""
        finished = tuple(one.finished_records for one in snapshot.partitions)
        now_s = snapshot.uptime_s
        self._marks.append((now_s, snapshot.finished_records, finished))
        while len(self._marks) > 2 and self._marks[1][0] <= now_s - RATE_WINDOW_S:
            self._marks.popleft()
        self.lanes_max = max(self.lanes_max, snapshot.lanes)
        self.lag_records_max = max(self.lag_records_max, snapshot.lag_records or 0)
        self.backlog_records_max = max(self.backlog_records_max, snapshot.backlog_records)
        if now_s >= self._next_point_s:
            self._next_point_s = now_s + CURVE_POINT_S
            self._curve.append(self.rate_per_s)

    @property
    def rate_per_s(self) -> float:
        """Finished records per second over the last window."""
        return _rate(self._marks[-1][1] - self._marks[0][1], self._span_s) if self._marks else 0.0

    @property
    def partition_rates_per_s(self) -> tuple[float, ...]:
        """The same for each partition; zeros while partitions come and go."""
        if not self._marks:
            return ()
        before, now = self._marks[0][2], self._marks[-1][2]
        if len(before) != len(now):
            return (0.0,) * len(now)
        return tuple(_rate(max(0, b - a), self._span_s) for a, b in zip(before, now, strict=True))

    @property
    def curve(self) -> tuple[float, ...]:
        """Rates at even intervals, oldest first."""
        return tuple(self._curve)

    @property
    def _span_s(self) -> float:
        return self._marks[-1][0] - self._marks[0][0]


def _rate(count: int, span_s: float) -> float:
    return count / span_s if span_s > 0 else 0.0
