"""A series of fault runs: what each seed came to by row, kept in a file, and the table of all of them."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from _long_run import DIRTY, FOLDER, ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from _faults_rows import Row

DOCS = ROOT / "docs" / "project" / "survives"
COLUMNS = (
    "row", "fault", "on", "tests run", "red", "records", "lost", "early commits", "order",
    "commits of former owners", "repeated %", "recovery, median / longest (s)",
)  # fmt: skip
SUMS = ("lost", "premature_commits", "order_violations", "stale_commits")
MEASURES = ("finished", "duplicates", *SUMS)
NOTHING = "–"


@dataclass
class Seen:
    """What the runs of one row came to. Only counts: they add up, and a file keeps them."""

    tests: int = 0
    red: int = 0
    judged: int = 0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0))
    recovery_s: list[float] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Add what other runs of the same row came to."""
        self.tests += other.tests
        self.red += other.red
        self.judged += other.judged
        self._count(other.sums)
        self.recovery_s += other.recovery_s

    def judge(self, verdict: Mapping[str, int]) -> None:
        """Add what the checker said of one group's history."""
        self.judged += 1
        self._count(verdict)

    def cells(self, row: Row) -> list[object]:
        """Return its line of the table."""
        begin = [row.number, row.fault, row.tried_on, self.tests, self.red]
        if not self.judged:
            # Its tests look at what they are about, and judge no history.
            return [*begin, *[NOTHING] * (len(COLUMNS) - len(begin))]
        records = self.sums["finished"]
        repeated = f"{100 * self.sums['duplicates'] / max(records, 1):.2f}"
        took_s = self.recovery_s
        recovery = f"{statistics.median(took_s):.1f} / {max(took_s):.1f}" if took_s else NOTHING
        return [*begin, records, *(self.sums[measure] for measure in SUMS), repeated, recovery]

    def _count(self, counts: Mapping[str, int]) -> None:
        self.sums = {measure: count + counts[measure] for measure, count in self.sums.items()}


@dataclass
class SeedRun:
    """One seed's run of the rows, as the file keeps it for `--resume`."""

    seed: int
    scale: int
    commit: str
    seconds: float = 0.0
    rows: dict[int, Seen] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> SeedRun:
        """Return a run from the file."""
        rows = {int(row): Seen(**seen) for row, seen in kept["rows"].items()}
        return cls(**{**kept, "rows": rows})


def kept(scale: int, folders: Sequence[Path] = (DOCS, FOLDER)) -> list[SeedRun]:
    """Return the runs of a series that the files have; runs of uncommitted changes do not count."""
    files = [folder / "faults.json" for folder in folders]
    found = [
        SeedRun.read(one) for file in files if file.exists() for one in json.loads(file.read_text())["runs"]
    ]
    each = [one for at, one in enumerate(found) if one not in found[:at]]
    return [one for one in each if one.scale == scale and not one.commit.endswith(DIRTY)]


def table(chosen: Sequence[Row], runs: Sequence[SeedRun]) -> list[list[object]]:
    """Return the table: each row with what all runs came to."""
    lines = []
    for row in chosen:
        seen = Seen()
        for one in runs:
            seen.add(one.rows.get(row.number, Seen()))
        lines.append(seen.cells(row))
    return lines
