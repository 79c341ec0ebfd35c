"""The last hour in points, for plots: rates from differences of counters. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ehkafka.telemetry.snapshot import Snapshot

EVERY_S: Final = 5.0
POINTS_MAX: Final = 720
_NAMES: Final = ("at_s", "handled_per_s", "received_per_s", "lag_records", "backlog_records", "oldest_s")


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
