"""Runs the fault rows so many times and makes one table of all runs.

Runs inside the environment; see `scripts/faults` for what it is for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from _checks import run
from _environment import ROOT
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

HEAD = (
    "row", "test", "runs", "records", "lost", "premature", "order", "stale", "duplicates %",
    "recovery p50 / max (s)",
)  # fmt: skip
# Spark's row is in its own room: it needs the session that those tests share.
FILES = ("tests/faults/test_row_*.py", "tests/spark/engine/test_row_*.py")
SUMS = ("lost", "premature_commits", "order_violations", "stale_commits")
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
    parser.add_argument("--scale", type=int, default=1, help=f"how many times longer, up to {SCALE_MAX} (1)")
    parser.add_argument("--row", type=int, help="this row alone")
    parser.add_argument("--minutes", type=float, help=f"how long row {SOAK_ROW}, the soak, runs")
    options = parser.parse_args()
    if options.minutes is not None and (options.row != SOAK_ROW or options.minutes < SOAK_MINUTES_MIN):
        parser.error(f"--minutes goes with --row {SOAK_ROW}, from {SOAK_MINUTES_MIN} on")
    if not 1 <= options.scale <= SCALE_MAX:
        parser.error(f"--scale {options.scale}: use a number from 1 to {SCALE_MAX}")
    tests = row_tests(options.row)
    if not tests:
        parser.error(f"there is no test of row {options.row}")
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    lines = folder / "faults.jsonl"
    lines.unlink(missing_ok=True)
    soak = folder / "soak.json"
    soak.unlink(missing_ok=True)
    codes = [_run(number, options, tests, lines) for number in range(1, options.runs + 1)]
    if lines.exists():
        found = [json.loads(line) for line in lines.read_text().splitlines()]
        facts = {"runs": options.runs, "scale": options.scale, "commit": _commit()}
        write_table(found, facts, folder)
    if options.minutes is not None and soak.exists():
        from _faults_soak import write_soak  # noqa: PLC0415 - draws; the other rows need nothing for that

        write_soak(json.loads(soak.read_text()), folder)
    sys.exit(max(codes))


def row_tests(row: int | None) -> list[str]:
    """Return the files that test a row, or all of them, in the order of the rows."""
    paths = [path for pattern in FILES for path in ROOT.glob(pattern)]
    found = [(int(path.stem.split("_")[2]), str(path.relative_to(ROOT))) for path in paths]
    return [path for number, path in sorted(found) if row in {None, number}]


def _run(number: int, options: argparse.Namespace, tests: list[str], lines: Path) -> int:
    Console(stderr=True).print(f"Run {number} of {options.runs}")
    environment = {
        "EHKAFKA_FAULTS_FILE": str(lines),
        "EHKAFKA_FAULTS_SCALE": str(options.scale),
        "EHKAFKA_REQUIRE_BROKER": "1",
    }
    shown = ["-v"]
    if options.minutes is not None:
        environment["EHKAFKA_SOAK_MINUTES"] = str(options.minutes)
        environment["EHKAFKA_SOAK_FILE"] = str(lines.with_name("soak.json"))
        shown.append("--capture=no")  # it shows how it goes
    return run("pytest", *shown, f"--timeout={TIMEOUT_S * options.scale}", *tests, **environment)


def write_table(found: list[dict[str, Any]], facts: dict[str, Any], folder: Path) -> None:
    """Print the table of all runs; write faults.md and faults.json into `folder`."""
    tests: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        tests[one["row"], one["test"]].append(one)
    lines = [_cells(*test, runs) for test, runs in sorted(tests.items())]
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    markdown = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    markdown += [f"| {' | '.join(cells)} |" for cells in lines]
    (folder / "faults.md").write_text("\n".join(markdown) + f"\n\n{shown}\n")
    (folder / "faults.json").write_text(json.dumps({"facts": facts, "runs": found}, indent=1))
    table = Table(*HEAD, title="Fault rows", caption=shown)
    for cells in lines:
        table.add_row(*cells)
    # On a pipe too, no column is cut off.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    Console(stderr=True).print(f"Written: {folder / 'faults.md'}, faults.json")


def _cells(row: int, test: str, runs: list[dict[str, Any]]) -> tuple[str, ...]:
    records = sum(one["finished"] for one in runs)
    duplicates = sum(one["duplicates"] for one in runs)
    recovery_s = [taken_s for one in runs for taken_s in one["recovery_s"]]
    times = f"{statistics.median(recovery_s):.1f} / {max(recovery_s):.1f}" if recovery_s else "–"
    what = test.removeprefix(f"test_row_{row:02}_").replace("_", " ")
    sums = (str(sum(one[measure] for one in runs)) for measure in SUMS)
    share = 100 * duplicates / records if records else 0.0
    return (str(row), what, str(len(runs)), f"{records:,}", *sums, f"{share:.2f}", times)


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or os.environ.get("GITHUB_SHA", "?")[:7]
