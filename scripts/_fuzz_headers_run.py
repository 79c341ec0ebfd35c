"""Fuzz header decoding on all cores, with a progress bar on a terminal.

Exit code 1 when an input broke a rule; it is printed with the command that replays its seed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from typing import TYPE_CHECKING

from tests.kit.header_fuzz import INPUTS_PER_SEED, Failure, fuzz

if TYPE_CHECKING:
    from collections.abc import Iterator

_BAR_CHARACTERS = 40


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many inputs (1000000)")
    parser.add_argument("--seed", type=int, help="judge the inputs of this seed alone")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    options = parser.parse_args()
    if options.seed is not None:
        return _run(range(options.seed, options.seed + 1), 1)
    seeds = -(-options.inputs // INPUTS_PER_SEED)
    return _run(range(options.first, options.first + seeds), options.jobs)


def _run(seeds: range, jobs: int) -> int:
    started_s = time.perf_counter()
    values = bad = 0
    for done, (seed, decoded, problem) in enumerate(_results(seeds, jobs), 1):
        values += decoded
        if problem is not None:
            bad += 1
            _say(f"seed {seed}: {problem}\n  scripts/fuzz_headers --seed {seed}")
        _show_progress(done, len(seeds), bad)
    took_s = time.perf_counter() - started_s
    _say(
        f"{len(seeds) * INPUTS_PER_SEED} inputs in {took_s:.1f} s: {values} were values, "
        f"{bad} seeds broke a rule"
    )
    return 1 if bad else 0


def _results(seeds: range, jobs: int) -> Iterator[tuple[int, int, str | None]]:
    if jobs == 1:
        yield from map(_judge, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_judge, seeds)


def _judge(seed: int) -> tuple[int, int, str | None]:
    try:
        return seed, fuzz(seed), None
    except Failure as failure:
        return seed, 0, str(failure)


def _show_progress(done: int, total: int, bad: int) -> None:
    if sys.stdout.isatty():
        bar = "█" * (_BAR_CHARACTERS * done // total)
        print(f"\r\033[K{bar:░<{_BAR_CHARACTERS}} {done}/{total} seeds, {bad} red", end="", flush=True)


def _say(text: str) -> None:
    print(f"\r\033[K{text}" if sys.stdout.isatty() else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
