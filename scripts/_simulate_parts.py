"""Parts of a long run of the simulator, as its file keeps them for `--resume`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from _long_run import DIRTY, FOLDER, UNKNOWN
from _survives_page import TAKEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.kit.simulated.simulator import SimulationReport

COLUMNS = ("way", "seeds", "steps", "records", "assignments", "commits", "repeated", "broke a promise")
WAY_WORDS = {"": "as drawn", "short-texts": "exactly once, short commits", "transactions": "exactly once"}
# One to three minutes on two slow cores: no more is lost when a run is ended.
SEEDS_EACH = 500


@dataclass
class Part:
    """Seeds of one way, and what they came to."""

    way: str
    seeds: range
    commit: str = UNKNOWN
    seconds: float = 0.0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS[1:], 0))

    def count(self, report: SimulationReport) -> None:
        """Add one seed's report."""
        verdict = report.verdict
        counts = 1, report.steps, verdict.finished, verdict.epochs, verdict.commits_acknowledged
        for column, value in zip(COLUMNS[1:], (*counts, verdict.duplicates, not report.ok), strict=True):
            self.sums[column] += value

    def for_file(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        seeds = [self.seeds.start, self.seeds.stop, self.seeds.step]
        return {**vars(self), "seeds": seeds}

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Part:
        """Return a part from the file."""
        return cls(**{**kept, "seeds": range(*kept["seeds"])})


def unrun(seeds_of: Mapping[str, range]) -> list[Part]:
    """Return the parts of each way's seeds."""
    starts = [(way, seeds, at) for way, seeds in seeds_of.items() for at in range(0, len(seeds), SEEDS_EACH)]
    return [Part(way, seeds[at : at + SEEDS_EACH]) for way, seeds, at in starts]


def kept(folders: Sequence[Path] = (TAKEN, FOLDER)) -> list[Part]:
    """Return the parts that the files have; those of uncommitted changes or with a red seed do not count."""
    files = [folder / "simulation.json" for folder in folders]
    found = [
        Part.read(one)
        for file in files
        if file.exists()
        for one in json.loads(file.read_text()).get("parts", ())
    ]
    return [one for one in found if not one.commit.endswith(DIRTY) and not one.sums[COLUMNS[-1]]]


def rows_of(parts: Sequence[Part]) -> list[tuple[object, ...]]:
    """Return the table: what each way's seeds came to."""
    ways = dict.fromkeys(part.way for part in parts)
    return [
        (
            WAY_WORDS.get(way, way),
            *(sum(part.sums[column] for part in parts if part.way == way) for column in COLUMNS[1:]),
        )
        for way in ways
    ]
