"""The raw data of a run: a line of JSON for each measurement, written at once; one file of docs later."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peers.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUILD = ROOT / "build" / "peers"
RAW = "raw.jsonl"
DOCS = ROOT / "docs" / "project" / "peers"
TAKEN = DOCS / "raw.json"
# The last line of a run that was not interrupted.
END = {"ended": True}


class RawError(Exception):
    """There is no run that can be taken; the message says why."""


@dataclass
class Run:
    """What one run of the comparison found: facts of it, and its measurements in order."""

    facts: dict[str, Any]
    # Each has row, side, mode, round; figures, or `failed` with a sentence.
    measurements: list[dict[str, Any]] = field(default_factory=list)

    def of(self, row: str) -> dict[str, list[dict[str, Any]]]:
        """Return a row's measurements by the mode's title."""
        found: dict[str, list[dict[str, Any]]] = {}
        for one in self.measurements:
            if one["row"] == row:
                found.setdefault(one["mode"], []).append(one)
        return found


class Writer:
    """Writes a run's file from its beginning, line by line: what was measured outlives a run that breaks."""

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / RAW
        self._path.write_text(json.dumps({"facts": facts}) + "\n", encoding="utf-8")

    def add(self, measurement: dict[str, Any]) -> None:
        """Write one measurement."""
        self._write(measurement)

    def end(self) -> None:
        """Write that the run came to its end: all of its rounds are whole."""
        self._write(END)

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_run(folder: Path = BUILD) -> Run:
    """Read the last run. A run that was interrupted counts by the rounds before its last one.

    Raises `RawError` where there is no run, or none with a whole round.
    """
    try:
        lines = (folder / RAW).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise RawError(f"{folder / RAW} is not there: run `scripts/bench --peers` first.") from None
    facts, *measurements = (json.loads(line) for line in lines)
    run = Run(facts["facts"], measurements)
    if measurements and measurements[-1] == END:
        del measurements[-1]
        return run
    return _whole_rounds(run)


def _whole_rounds(run: Run) -> Run:
    rounds = max((one["round"] for one in run.measurements), default=0)
    if rounds == 0:
        raise RawError("The last run was interrupted in its first round: run `scripts/bench --peers` again.")
    return Run(run.facts | {"rounds": rounds}, [one for one in run.measurements if one["round"] < rounds])


def read_taken(path: Path = TAKEN) -> Run | None:
    """Read the run that the page shows; None while there is none."""
    if not path.exists():
        return None
    given = json.loads(path.read_text(encoding="utf-8"))
    return Run(given["facts"], given["measurements"])


def take(run: Run, path: Path = TAKEN) -> None:
    """Keep a whole run as the one that the page shows, one measurement a line.

    Raises `RawError` where it is a part of one.
    """
    if part := run.facts.get("part"):
        raise RawError(f"The last run was only a part ({part}); the page shows whole runs.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_texts(run)), encoding="utf-8")


def _texts(run: Run) -> Iterator[str]:
    yield '{"facts": ' + json.dumps(run.facts) + ',\n"measurements": [\n'
    yield ",\n".join(json.dumps(one) for one in run.measurements)
    yield "\n]}\n"
