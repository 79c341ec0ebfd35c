"""Run seeds of the simulator on all cores, with a progress bar on a terminal.

Exit code 1 when a seed broke a promise; each of those prints the command that replays it. A run of many seeds
writes build/survives/simulation.json, again after each part, so that `--resume` can go on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from _long_run import LongRun, commit
from _simulate_parts import COLUMNS, Part, kept, rows_of, unrun

from tests.kit.simulated.plan import WAYS
from tests.kit.simulated.simulator import SimulationReport, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.kit.simulated.plan import SimulationPlan

HELP = {
    "batches": "every seed with batches",
    "transactions": "every seed with outputs, sent exactly once",
    "short-texts": "the same where commits cannot say all that is finished above them",
    "all": "every seed as it is drawn, and in each of these ways",
    "in-turn": "each seed in one way, the next one in the next: a quarter of --all",
}
EACH = ("all", "in-turn")


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
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the parts of an earlier run, and repeat those with a red seed",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is None:
        ways = list(WAYS) if options.way in EACH else [options.way]
        step = len(ways) if options.way == "in-turn" else 1
        parts = unrun({way: seeds[number % step :: step] for number, way in enumerate(ways)})
        return _run(parts, kept() if options.resume else [], options.jobs)
    if options.way in EACH:
        parser.error(f"--{options.way} goes without --seed: a seed is replayed in one way")
    return _replay(WAYS[options.way](options.seed))


def _replay(plan: SimulationPlan) -> int:
    report = simulate(plan.seed, plan=plan, trace=True)
    print(report.report())
    return 0 if report.ok else 1


def _run(parts: list[Part], earlier: list[Part], jobs: int) -> int:
    long_run = LongRun("simulation")
    done: list[Part] = []
    total = sum(len(part.seeds) for part in parts)
    with ExitStack() as stack:
        simulated: Callable[..., Iterable[SimulationReport]] = partial(map, _simulated)
        if jobs > 1:
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(jobs))
            simulated = partial(pool.imap_unordered, _simulated, chunksize=4)
        for part in parts:
            before = next((one for one in earlier if one.seeds == part.seeds and one.way == part.way), part)
            if before is part:
                _simulate(part, simulated, long_run, sum(len(one.seeds) for one in done), total)
            done.append(before)
            if before is part or part is parts[-1]:
                _write(done, long_run)
    steps, records = (sum(part.sums[what] for part in done) for what in ("steps", "records"))
    seconds = sum(part.seconds for part in done)
    long_run.say(
        f"{total} seeds in {seconds:.1f} s ({total / max(seconds, 0.1):.1f} per second): "
        f"{steps} steps, {records} records, {len(long_run.problems)} broke a promise"
    )
    return 1 if long_run.problems else 0


def _simulate(
    part: Part,
    simulated: Callable[..., Iterable[SimulationReport]],
    long_run: LongRun,
    before: int,
    total: int,
) -> None:
    """Run a part's seeds, and note what they came to."""
    began_s, part.commit = time.monotonic(), commit()
    for number, report in enumerate(simulated([WAYS[part.way](seed) for seed in part.seeds]), 1):
        part.count(report)
        if not report.ok:
            long_run.broke(f"seed {report.plan.seed}: {report.problems[0]}", report.replay)
        long_run.show(before + number, total, "seeds")
    part.seconds = round(time.monotonic() - began_s, 1)


def _write(done: list[Part], long_run: LongRun) -> None:
    rows = rows_of(done)
    sums = {what: sum(part.sums[what] for part in done) for what in ("seeds", "steps", "records")}
    counts = {"seeds": sums["seeds"], "ways": len(rows), "steps": sums["steps"], "records": sums["records"]}
    commits: Counter[str] = Counter()
    for part in done:
        commits[part.commit] += len(part.seeds)
    note = ", ".join(f"{seeds} at {name}" for name, seeds in commits.items())
    long_run.write(
        counts,
        COLUMNS,
        rows,
        f"A seed is a group's whole life; repeats are those that faults explain. Seeds: {note}.",
        seconds=round(sum(part.seconds for part in done), 1),
        parts=[part.for_file() for part in done],
    )


def _simulated(plan: SimulationPlan) -> SimulationReport:
    return simulate(plan.seed, plan=plan)


if __name__ == "__main__":
    sys.exit(main())
