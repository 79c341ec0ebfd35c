"""Run seeds of the proof, with lines of progress or a bar on a terminal, and write what they have found.

Exit code 1 when a run broke a promise; each of those prints the command that replays it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _long_run import DIRTY, commit

from tests.proof.draws import Draw
from tests.proof.series import carry_out
from tests.proof.table import summary_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
DOCS = ROOT / "docs" / "project" / "survives"
SERIES = "three-brokers.json"
BAR_CHARACTERS = 30


class Progress:
    """Shows how far all is: a bar where there is a terminal, else each line."""

    def __init__(self, runs: int) -> None:
        self._runs, self._done, self._began_s = runs, 0, time.monotonic()
        self._is_live = sys.stderr.isatty()

    def show(self, line: str) -> None:
        """Show a line of a run."""
        if not self._is_live:
            print(line, file=sys.stderr, flush=True)
            return
        full = BAR_CHARACTERS * self._done // self._runs
        bar = "█" * full + "·" * (BAR_CHARACTERS - full)
        print(f"\r\033[K{bar} {self._done}/{self._runs}  {line[:70]}", end="", file=sys.stderr, flush=True)

    def done(self, result: dict[str, Any]) -> None:
        """Show that a run has ended."""
        self._done += 1
        wrong = result["violations"]
        found = f"BROKEN {wrong}" if wrong else "all kept"
        minutes = (time.monotonic() - self._began_s) / 60
        start = "\r\033[K" if self._is_live else ""
        of_all = f"{self._done} of {self._runs}, {minutes:.1f} min"
        text = f"{start}seed {result['seed']}: {result['records']} records, {found} ({of_all})"
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how many seeds (1)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="this seed alone")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are injected (60)")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=3)
    parser.add_argument(
        "--rate", type=float, default=350.0, help="records of the first level in a second (350)"
    )
    parser.add_argument("--members", type=int, default=2, help="of each of the three groups (2)")
    parser.add_argument("--parallel", type=int, default=1, help="runs at once (1)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a series: keep all its runs, and repeat those that broke a promise",
    )
    asked = parser.parse_args()
    began = commit()
    results = kept(asked) if asked.resume else []
    kept_well = {one["seed"] for one in results if not one["violations"]}
    seeds = [seed for seed in asked_seeds(asked) if seed not in kept_well]
    draws = [Draw(seed, *shape_of(asked)) for seed in seeds]
    progress = Progress(len(draws))

    def done(result: dict[str, Any]) -> None:
        results.append({**result, "commit": began, "shape": shape_of(asked)})
        results.sort(key=lambda one: one["seed"])
        progress.done(result)
        write(results, asked, began)

    carry_out(draws, parallel=asked.parallel, show=progress.show, done=done)
    return report(results, asked)


def asked_seeds(asked: argparse.Namespace) -> Sequence[int]:
    """Return the seeds that the command line asks for."""
    return [asked.replay] if asked.replay is not None else range(asked.first, asked.first + asked.runs)


def shape_of(asked: argparse.Namespace) -> list[Any]:
    """Return what two runs of a series have in common: brokers, seconds, rate, members."""
    return [asked.brokers, asked.seconds, asked.rate, asked.members]


def kept(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Return earlier results of the same series; one that broke a promise stays in the table, too."""
    files = [folder / SERIES for folder in (DOCS, BUILD / "survives")]
    found = [one for path in files if path.exists() for one in json.loads(path.read_text())["runs"]]
    same = [one for one in found if one["shape"] == shape_of(asked) and not one["commit"].endswith(DIRTY)]
    each = [one for at, one in enumerate(same) if one not in same[:at]]
    return sorted((one for one in each if one["seed"] in asked_seeds(asked)), key=lambda one: one["seed"])


def write(results: list[dict[str, Any]], asked: argparse.Namespace, began: str) -> None:
    """Write what was found so far: a run of hours may be ended before its time. `began`: its commit."""
    # A tree that changed meanwhile is that of no commit.
    ran = began if began == commit() else began.removesuffix(DIRTY) + DIRTY
    command = shlex.join(["scripts/proof", *sys.argv[1:]])
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    (BUILD / "survives").mkdir(parents=True, exist_ok=True)
    (BUILD / "proof.md").write_text(f"```text\n{text_of(results)}\n```\n")
    # One run alone is no series, whose file it must not replace.
    if len(asked_seeds(asked)) > 1 and asked.brokers > 1:
        summary = summary_of(results, command=command, commit=ran, date=date)
        (BUILD / "survives" / SERIES).write_text(json.dumps(summary, indent=1))


def report(results: list[dict[str, Any]], asked: argparse.Namespace) -> int:
    """Print the table, and for each broken run what it shows and how to run it again."""
    print(text_of(results))
    broken = [result for result in results if result["violations"]]
    for result in broken:
        print(f"\nseed {result['seed']}: {dict(result['violations'])}, logs in {result.get('logs', 'none')}")
        print(
            "\n".join(f"  {line[:300]}" for line in [*result.get("shown", ()), *result.get("evidence", ())])
        )
        same = f"--seconds {asked.seconds:g} --rate {asked.rate:g} --members {asked.members}"
        print(f"  again: scripts/proof --brokers {asked.brokers} --replay {result['seed']} {same}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
