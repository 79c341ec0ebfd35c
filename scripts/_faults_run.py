"""Runs the fault rows so many times, each time with another seed, and makes one table of all runs.

Runs inside the environment; see `scripts/faults` for what it is for.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from _checks import run
from _environment import ROOT
from _faults_rows import Row, rows
from _faults_series import COLUMNS, SeedRun, Seen, kept, table
from _long_run import LongRun, commit
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PROBLEM_CHARACTERS = 200
# Beyond it the embedded broker's 5 MiB of a partition, and the backlog, end.
SCALE_MAX = 20
SOAK_ROW = 27
# In less, no member is both killed and stopped in good order.
SOAK_MINUTES_MIN = 2.0
# The slowest test of the quick run takes less, however busy the machine.
TIMEOUT_S = 120


def main(description: str) -> None:
    """Run, then write the table; leave with pytest's code."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1, help="how often each row runs (1)")
    parser.add_argument("--seed", type=int, default=1, help="the first run's seed (1); each has the next one")
    parser.add_argument("--scale", type=int, default=1, help=f"how many times longer, up to {SCALE_MAX} (1)")
    parser.add_argument("--row", type=int, help="this row alone")
    parser.add_argument("--minutes", type=float, help=f"how long row {SOAK_ROW}, the soak, runs")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a series of all rows: keep its runs, and repeat the seeds that were red",
    )
    options = parser.parse_args()
    if options.resume and options.row is not None:
        parser.error("--resume goes with a run of all rows")
    if options.minutes is not None and (options.row != SOAK_ROW or options.minutes < SOAK_MINUTES_MIN):
        parser.error(f"--minutes goes with --row {SOAK_ROW}, from {SOAK_MINUTES_MIN} on")
    if not 1 <= options.scale <= SCALE_MAX:
        parser.error(f"--scale {options.scale}: use a number from 1 to {SCALE_MAX}")
    chosen = [row for row in rows() if options.row in {None, row.number}]
    if not chosen:
        parser.error(f"there is no row {options.row}")
    sys.exit(_run_all(chosen, options))


def _run_all(chosen: list[Row], options: argparse.Namespace) -> int:
    is_soak = options.minutes is not None
    long_run, codes = LongRun("soak" if is_soak else "faults"), [0]
    runs = kept(options.scale) if options.resume else []
    for one in runs:
        for problem in one.problems:
            long_run.broke(problem)
    green = {one.seed for one in runs if not one.problems}
    folder = ROOT / "build" / "faults"
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seed, options.seed + options.runs):
        if seed in green:
            continue
        Console(stderr=True).print(f"Seed {seed}, to {options.seed + options.runs - 1}")
        began_s, known, began = time.monotonic(), len(long_run.problems), commit()
        codes.append(_run(seed, chosen, options, folder))
        seen = {row.number: _seen(row, folder, seed, long_run, options) for row in chosen}
        if codes[-1] and len(long_run.problems) == known:
            # What it found stands in no file: it was ended, or a test could not even be loaded.
            long_run.broke(f"seed {seed}: pytest ended with {codes[-1]}, and no test of a row is red")
        took_s = round(time.monotonic() - began_s, 1)
        runs.append(SeedRun(seed, options.scale, began, took_s, seen, long_run.problems[known:]))
        # After each run: a long series that is interrupted has a table, too.
        if not is_soak:
            _write(long_run, chosen, runs, options)
    _show(table(chosen, runs))
    seen_by_soak = folder / "soak.json"
    if is_soak and seen_by_soak.exists():
        from _faults_soak import write_soak  # noqa: PLC0415 - draws; the other rows need nothing for that

        write_soak(json.loads(seen_by_soak.read_text()), long_run)
    elif is_soak:
        long_run.write({"minutes": options.minutes}, note="It did not come to its end.")
    return max(codes)


def _run(seed: int, chosen: list[Row], options: argparse.Namespace, folder: Path) -> int:
    lines = folder / f"{seed}.jsonl"
    for path in (lines, _outcomes(folder, seed), folder / "soak.json"):
        path.unlink(missing_ok=True)
    environment = {
        "EHKAFKA_FAULTS_FILE": str(lines),
        "EHKAFKA_FAULTS_SCALE": str(options.scale),
        "EHKAFKA_FAULTS_SEED": str(seed),
        "EHKAFKA_REQUIRE_BROKER": "1",
        # What is red once is red: a second try would hide what the first one found.
        "EHKAFKA_RERUNS": "0",
    }
    shown = ["-v", f"--junit-xml={_outcomes(folder, seed)}", "-o", "junit_family=xunit1"]
    if options.minutes is not None:
        environment["EHKAFKA_SOAK_MINUTES"] = str(options.minutes)
        environment["EHKAFKA_SOAK_FILE"] = str(folder / "soak.json")
        shown.append("--capture=no")  # it shows how it goes
    tests = dict.fromkeys(test for row in chosen for test in row.tests)
    return run("pytest", *shown, f"--timeout={TIMEOUT_S * options.scale}", *tests, **environment)


def _seen(row: Row, folder: Path, seed: int, long_run: LongRun, options: argparse.Namespace) -> Seen:
    """Return what one run of a row came to; what is red goes to `long_run`, too."""
    seen = Seen()
    for test, problem in _tests_of(_outcomes(folder, seed)):
        if row.has(test):
            seen.tests += 1
            seen.red += bool(problem)
            if problem:
                long = (
                    f"--scale {options.scale}"
                    if options.minutes is None
                    else f"--minutes {options.minutes:g}"
                )
                replay = f"scripts/faults --row {row.number} {long} --seed {seed}"
                long_run.broke(f"row {row.number}: {test.rpartition('::')[2]}: {problem}", replay)
    path = folder / f"{seed}.jsonl"
    found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    judged: dict[tuple[str, str], dict[str, Any]] = {}
    for line in found:
        if not row.has(line["test"]):
            continue
        if "group" in line:
            judged[line["test"], line["group"]] = line
        seen.recovery_s += line.get("recovery_s", ())
    for verdict in judged.values():
        seen.judge(verdict)
    return seen


def _outcomes(folder: Path, seed: int) -> Path:
    return folder / f"{seed}.xml"


def _tests_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each test that was not skipped, and the first words of what is wrong, if anything is."""
    if not path.exists():  # pytest itself was ended
        return
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 - our own file
        if case.find("skipped") is None:
            wrong = [one.get("message") or one.tag for one in case if one.tag in {"failure", "error"}]
            yield f"{case.get('file')}::{case.get('name')}", "; ".join(wrong)[:PROBLEM_CHARACTERS]


def _write(
    long_run: LongRun, chosen: Sequence[Row], runs: Sequence[SeedRun], options: argparse.Namespace
) -> None:
    if options.row is not None:
        return
    lines = table(chosen, runs)
    counts = {
        "rows": sum(bool(line[3]) for line in lines),
        "runs": len(runs),
        "tests": sum(int(str(line[3])) for line in lines),
        "records": sum(line[5] for line in lines if isinstance(line[5], int)),
    }
    seeds = ", ".join(f"{one.seed} at {one.commit} in {one.seconds / 60:.0f} min" for one in runs)
    note = f"Each run has another seed, and is {options.scale} times as long as in the tests. Seeds: {seeds}."
    long_run.write(
        counts,
        COLUMNS,
        lines,
        note,
        seconds=sum(one.seconds for one in runs),
        runs=[asdict(one) for one in runs],
    )


def _show(lines: list[list[object]]) -> None:
    table = Table(*COLUMNS, title="Fault rows")
    for line in lines:
        table.add_row(*map(str, line))
    # On a pipe too, no column is cut off.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
