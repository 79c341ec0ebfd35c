"""Runs all mutants with pytest, in processes of its own, and counts those that live.

Exit code 1 when one lives, or its guard is no longer where it was; the command that shows it is printed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter, defaultdict
from typing import Any

import pytest
from _long_run import ROOT, LongRun

COLUMNS = ("mutants of", "taken out", "noticed", "lives", "CPU-seconds")


class Watch:
    """Keeps how each mutant ended; of one that ran again the last time counts."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take one phase of one test."""
        self.seconds[report.nodeid] += report.duration
        if report.outcome != "passed" or report.when == "call":
            self.outcomes[report.nodeid] = report.outcome


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("places", nargs="*", default=["tests"], help="folders or files of tests (tests)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    options, rest = parser.parse_known_args()
    long_run, watch = LongRun("mutants"), Watch()
    command = ["-q", "--no-header", "--tb=short", f"--rootdir={ROOT}", "-n", str(options.jobs)]
    code = pytest.main([*command, "-p", "_mutants_select", *rest, *files_in(options.places)], plugins=[watch])
    for name, outcome in watch.outcomes.items():
        if outcome != "passed":
            long_run.broke(
                f"{name} {'lives' if outcome == 'failed' else outcome}", f"scripts/mutants '{name}'"
            )
    if code and not long_run.problems:
        long_run.broke(f"pytest ended with {int(code)}, and each mutant that ran was noticed")
    rows = rows_of(watch)
    noticed = sum(row[2] for row in rows)
    long_run.say(f"{len(watch.outcomes)} mutants in {long_run.seconds:.0f} s: {noticed} noticed")
    if not rest and options.places == ["tests"]:
        long_run.write(
            {"mutants": len(watch.outcomes), "noticed": noticed, "tables": len(rows)}, COLUMNS, rows
        )
    return int(code) or int(bool(long_run.problems))


def files_in(places: list[str]) -> list[str]:
    """Return the tests in these places that have mutants; a single test as it is."""
    found = []
    for place in places:
        path = ROOT / place.partition("::")[0]
        if path.is_file():
            found.append(place)
        else:
            files = sorted(path.rglob("test_*.py"))
            found += [str(file) for file in files if re.search(r"def test_mutant", file.read_text())]
    return found


def rows_of(watch: Watch) -> list[tuple[str, int, int, int, float]]:
    """Return a row for each file, the longest table first."""
    files: dict[str, list[str]] = defaultdict(list)
    for name in watch.outcomes:
        files[name.partition("::")[0]].append(name)
    rows = []
    for file, names in files.items():
        noticed = sum(watch.outcomes[name] == "passed" for name in names)
        seconds = round(sum(watch.seconds[name] for name in names), 1)
        rows.append((f"`{file.removeprefix('tests/')}`", len(names), noticed, len(names) - noticed, seconds))
    return sorted(rows, key=lambda row: (-row[1], row[0]))


if __name__ == "__main__":
    sys.exit(main())
