"""Run seeds of the simulator on all cores, with a progress bar on a terminal.

Exit code 1 when a seed broke a promise; each of those prints the command that replays it. A run of many seeds
writes build/survives/simulation.json.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from _long_run import LongRun

from tests.kit.simulated.plan import WAYS
from tests.kit.simulated.simulator import SimulationReport, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.simulated.plan import SimulationPlan

HELP = {
    "batches": "every seed with batches",
    "transactions": "every seed with outputs, sent exactly once",
    "short-texts": "the same where commits cannot say all that is finished above them",
    "all": "every seed as it is drawn, and in each of these ways",
    "in-turn": "each seed in one way, the next one in the next: a quarter of --all",
}
EACH = ("all", "in-turn")
COLUMNS = ("way", "seeds", "steps", "records", "assignments", "commits", "repeated", "broke a promise")
WAY_WORDS = {"": "as drawn", "short-texts": "exactly once, short commits", "transactions": "exactly once"}


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed alone and show its last steps")
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds to run (300)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    for way in (*filter(None, WAYS), *EACH):
        parser.add_argument(
            f"--{way}", dest="way", action="store_const", const=way, default="", help=HELP[way]
        )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is None:
        ways = list(WAYS) if options.way in EACH else [options.way]
        step = len(ways) if options.way == "in-turn" else 1
        return _run({way: seeds[number % step :: step] for number, way in enumerate(ways)}, options.jobs)
    if options.way in EACH:
        parser.error(f"--{options.way} goes without --seed: a seed is replayed in one way")
    return _replay(WAYS[options.way](options.seed))


def _replay(plan: SimulationPlan) -> int:
    report = simulate(plan.seed, plan=plan, trace=True)
    print(report.report())
    return 0 if report.ok else 1


def _run(ways: dict[str, range], jobs: int) -> int:
    long_run = LongRun("simulation")
    rows, before, total = [], 0, sum(map(len, ways.values()))
    for way, seeds in ways.items():
        sums: dict[str, int] = defaultdict(int)
        for done, report in enumerate(_reports([WAYS[way](seed) for seed in seeds], jobs), 1):
            _count(sums, report)
            if not report.ok:
                long_run.broke(f"seed {report.plan.seed}: {report.problems[0]}", report.replay)
            long_run.show(before + done, total, "seeds")
        before += len(seeds)
        rows.append((WAY_WORDS.get(way, way), *(sums[column] for column in COLUMNS[1:])))
    totals = dict(zip(COLUMNS[1:], map(sum, zip(*(row[1:] for row in rows), strict=True)), strict=True))
    long_run.say(
        f"{total} seeds in {long_run.seconds:.1f} s ({total / long_run.seconds:.1f} per second): "
        f"{totals['steps']} steps, {totals['records']} records, {len(long_run.problems)} broke a promise"
    )
    counts = {"seeds": total, "ways": len(ways), "steps": totals["steps"], "records": totals["records"]}
    long_run.write(
        counts, COLUMNS, rows, "A seed is a group's whole life; repeats are those that faults explain."
    )
    return 1 if long_run.problems else 0


def _count(sums: dict[str, int], report: SimulationReport) -> None:
    verdict = report.verdict
    for column, value in zip(
        COLUMNS[1:],
        (1, report.steps, verdict.finished, verdict.epochs, verdict.commits_acknowledged, verdict.duplicates),
        strict=False,
    ):
        sums[column] += value
    sums["broke a promise"] += not report.ok


def _reports(plans: list[SimulationPlan], jobs: int) -> Iterator[SimulationReport]:
    if jobs == 1:
        yield from map(_simulated, plans)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_simulated, plans, chunksize=4)


def _simulated(plan: SimulationPlan) -> SimulationReport:
    return simulate(plan.seed, plan=plan)


if __name__ == "__main__":
    sys.exit(main())
