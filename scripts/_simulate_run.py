"""Run seeds of the simulator on all cores, with a progress bar on a terminal.

Exit code 1 when a seed broke a promise; each of those prints the command that replays it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from typing import TYPE_CHECKING

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
}
_BAR_CHARACTERS = 40


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed alone and show its last steps")
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds to run (300)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    for way in (*filter(None, WAYS), "all"):
        parser.add_argument(
            f"--{way}", dest="way", action="store_const", const=way, default="", help=HELP[way]
        )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is None:
        ways = list(WAYS) if options.way == "all" else [options.way]
        return _run([WAYS[way](seed) for way in ways for seed in seeds], options.jobs)
    if options.way == "all":
        parser.error("--all goes without --seed: a seed is replayed in one way")
    return _replay(WAYS[options.way](options.seed))


def _replay(plan: SimulationPlan) -> int:
    report = simulate(plan.seed, plan=plan, trace=True)
    print(report.report())
    return 0 if report.ok else 1


def _run(plans: list[SimulationPlan], jobs: int) -> int:
    started_s = time.perf_counter()
    failed: list[int] = []
    steps = records = 0
    for done, report in enumerate(_reports(plans, jobs), 1):
        steps += report.steps
        records += report.verdict.finished
        if not report.ok:
            failed.append(report.plan.seed)
            _say(f"seed {report.plan.seed}: {report.problems[0]}\n  {report.replay}")
        _show_progress(done, len(plans), len(failed))
    took_s = time.perf_counter() - started_s
    _say(
        f"{len(plans)} seeds in {took_s:.1f} s ({len(plans) / took_s:.1f} per second): {steps} steps, "
        f"{records} records, {len(failed)} seeds broke a promise"
    )
    return 1 if failed else 0


def _reports(plans: list[SimulationPlan], jobs: int) -> Iterator[SimulationReport]:
    if jobs == 1:
        yield from map(_simulated, plans)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_simulated, plans, chunksize=4)


def _simulated(plan: SimulationPlan) -> SimulationReport:
    return simulate(plan.seed, plan=plan)


def _show_progress(done: int, total: int, failed: int) -> None:
    if sys.stdout.isatty():
        bar = "█" * (_BAR_CHARACTERS * done // total)
        print(f"\r\033[K{bar:░<{_BAR_CHARACTERS}} {done}/{total} seeds, {failed} red", end="", flush=True)


def _say(text: str) -> None:
    print(f"\r\033[K{text}" if sys.stdout.isatty() else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
