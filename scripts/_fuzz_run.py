"""Fuzz decoders on all cores, with a progress bar on a terminal.

Exit code 1 when an input broke a rule; it is printed with the command that replays its seed.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from _long_run import LongRun

from tests.kit.fuzz import TARGETS
from tests.kit.fuzz.target import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    Seed = tuple[str, int]

COLUMNS = ("decoder", "inputs", "taken", "refused", "broke a rule")
# Of CPU, for one seed's inputs: what does not end by then never does.
SEED_S_MAX = 120.0


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=TARGETS, help="this decoder alone")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds of each (100)")
    parser.add_argument("--minutes", type=float, help="end after so long, whatever --seeds says")
    parser.add_argument("--seed", type=int, help="judge the inputs of this seed alone")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    options = parser.parse_args()
    names = [options.of] if options.of else list(TARGETS)
    seeds = (
        itertools.count(options.first)
        if options.minutes
        else range(options.first, options.first + options.seeds)
    )
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    tries = ((name, seed) for seed in seeds for name in names)
    total = 0 if options.minutes else len(names) * (1 if options.seed is not None else options.seeds)
    return _run(tries, total, options)


def _run(tries: Iterator[Seed], total: int, options: argparse.Namespace) -> int:
    long_run = LongRun("fuzzing")
    judged: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for done, ((name, seed), values, problem) in enumerate(_results(tries, options.jobs), 1):
        judged[name] += TARGETS[name].inputs_per_seed
        taken[name] += values
        if problem:
            broken[name] += 1
            long_run.broke(f"{name}, seed {seed}: {problem}", f"scripts/fuzz --of {name} --seed {seed}")
        long_run.show(done, total or done, "seeds")
        if options.minutes and long_run.seconds >= 60 * options.minutes:
            break
    long_run.say(
        f"{judged.total():,} inputs in {long_run.seconds:.1f} s, {broken.total()} seeds broke a rule"
    )
    rows = [
        (TARGETS[name].what, judged[name], taken[name], judged[name] - taken[name], broken[name])
        for name in TARGETS
        if judged[name]
    ]
    if options.seed is None:
        counts = {"decoders": len(rows), "inputs": judged.total(), "taken": taken.total()}
        long_run.write(
            counts, COLUMNS, rows, "A seed decides each input: the same seed makes the same inputs again."
        )
    return 1 if broken else 0


def _results(tries: Iterator[Seed], jobs: int) -> Iterator[tuple[Seed, int, str]]:
    if jobs == 1:
        yield from map(_judge, tries)
        return
    # A few at a time: a run of so many minutes has no last seed.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        while few := list(itertools.islice(tries, 16 * jobs)):
            yield from pool.imap_unordered(_judge, few)


def _judge(one: Seed) -> tuple[Seed, int, str]:
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, SEED_S_MAX)
    try:
        return one, TARGETS[one[0]].run(one[1]), ""
    except Failure as failure:
        return one, 0, str(failure)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_long(_number: int, _frame: object) -> NoReturn:
    raise TimeoutError(f"no end after {SEED_S_MAX:g} s of CPU")


if __name__ == "__main__":
    sys.exit(main())
