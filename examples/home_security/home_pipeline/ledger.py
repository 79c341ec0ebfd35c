"""The simulator's ledger: what was sent, so that the numbers on the page can be checked against it.

Pure but for reading and writing its own file. It keeps each good reading of the first homes as it is, and for
all homes a count per minute and kind, `SPOILT` for what must not be counted. It knows nothing of rows,
windows or engines, on purpose.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from home_pipeline.names import home_name
from home_pipeline.readings import LIVELY_HOMES, SPOILT, Reading
from home_pipeline.stage import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from home_pipeline.readings import Sent

MINUTE_US = 60_000_000


@dataclass(slots=True)
class Ledger:
    """Counts what the broker acknowledged; keeps the readings of the lively homes for a while."""

    detailed_from_us: int = 0
    sent: int = 0
    closing_us: int | None = None
    """When the last reading was taken that only moves time on; it is counted like the others."""
    left_out: Counter[str] = field(default_factory=Counter)
    per_minute: Counter[tuple[int, str, bool]] = field(default_factory=Counter)
    homes: dict[str, list[Reading]] = field(default_factory=dict)

    def note(self, sent: Sent) -> None:
        """Count a record that the broker has."""
        self.sent += 1
        if sent.left_out is not None:
            self.left_out[sent.left_out] += 1
            self.per_minute[sent.timestamp_ms // 60_000 * 60, SPOILT, False] += 1
            return
        reading = sent.reading
        minute_s = reading.at_us // MINUTE_US * 60
        self.per_minute[minute_s, reading.kind, reading.alarm] += 1
        if reading.home < home_name(LIVELY_HOMES):
            self.homes.setdefault(reading.home, []).append(reading)

    def forget_before(self, at_us: int) -> None:
        """Drop the readings kept from before; the counts stay."""
        self.detailed_from_us = at_us
        for home, readings in self.homes.items():
            self.homes[home] = [reading for reading in readings if reading.at_us >= at_us]

    def between(self, begin_s: int, end_s: int) -> Counter[str]:
        """How many readings of each kind, and `alarms`, over all homes."""
        found: Counter[str] = Counter()
        for (minute_s, kind, alarm), number in self.per_minute.items():
            if begin_s <= minute_s < end_s:
                found[kind] += number
                found["alarms"] += number * alarm
        return found

    def write(self, path: Path) -> None:
        """Replace the file; a reader sees the old one or the new one."""
        content = {
            "detailed_from_us": self.detailed_from_us,
            "sent": self.sent,
            "closing_us": self.closing_us,
            "left_out": self.left_out,
            "per_minute": [[*key, number] for key, number in self.per_minute.items()],
            "homes": self.homes,
        }
        replace_file(path, content)


def read_ledger(path: Path) -> Ledger:
    """Return a ledger from its file."""
    content = json.loads(path.read_text())
    ledger = Ledger(*(content[name] for name in ("detailed_from_us", "sent", "closing_us")))
    ledger.left_out.update(content["left_out"])
    ledger.per_minute.update({(m, kind, alarm): n for m, kind, alarm, n in content["per_minute"]})
    ledger.homes = {home: [Reading(*one) for one in kept] for home, kept in content["homes"].items()}
    return ledger
