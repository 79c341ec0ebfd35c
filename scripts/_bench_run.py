"""The benchmark's driver: fills topics, runs the sides of each row in turn, writes the report.

Runs inside the environment; see `scripts/bench` for what it is for.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
from _bench_cpu import OTHERS_SHARE_MAX
from _bench_fill import fill
from _bench_row import LIVE
from _bench_rows import table
from _bench_side import SCRIPTS, MeasurementFailedError, Setting, run_side
from _bench_tables import write_report
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ehkafka.testing.faults.commit_throttle import CommitThrottle
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _bench_row import Row, Side

Figures = dict[str, dict[str, list[dict[str, Any]]]]
ROUNDS, QUICK_ROUNDS = 5, 2
# How often a measurement is repeated while others take much of the CPU.
REPEATS, QUICK_REPEATS = 2, 1
# Long ones are not: that would be hours.
REPEATED_S_MAX = 150.0
# As Apache Kafka has it; with the broker's other default of 1024 each run begins with refused commits.
BROKER = {"offset.metadata.max.bytes": 4096}


def main(description: str) -> None:
    """Measure and write."""
    options = _options(description)
    rows, topics = table(quick=options.quick, minutes=options.minutes, size=options.size)
    chosen = [row for row in rows if not options.only or any(_is_named(row, text) for text in options.only)]
    if not chosen:
        raise SystemExit(f"No row starts with {' or '.join(options.only)}.")
    console = Console(stderr=True)
    started_s = time.monotonic()
    with CommitThrottle() as proxy:
        far = {"far": Listener(advertised_port=proxy.port)}
        with KafkaBroker(profile="bench", listeners=far, properties=BROKER) as broker:
            proxy.forward_to(broker.bootstrap_for("far"))
            needed = {side.topic for row in chosen for _, side in row.sides} - {LIVE}
            fill(broker, {name: topics[name] for name in sorted(needed)}, console)
            rounds = Rounds(Setting(broker, proxy, topics), options.rounds, options.repeats, console)
            figures, problem = rounds.measure(chosen)
    facts = {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "confluent-kafka": str(confluent_kafka.version()),
        "broker": "Apache Kafka 4.2, one node, same machine",
        "rounds": str(options.rounds),
        "minutes in all": f"{(time.monotonic() - started_s) / 60:.1f}",
    }
    if options.size != 1.0:
        facts["size"] = f"{options.size:g} of the full one: no result"
    if problem is not None:
        facts["rounds"] = f"{options.rounds}, not all of them: {problem}"
    if whole := [(row, sides) for row in chosen if (sides := _whole_rounds(row, figures[row.work]))]:
        write_report(whole, facts, options.into)
    if problem is not None:
        raise SystemExit(f"{problem} What was measured until then is in the report.")


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="W0, two of W2, one of W14, and W9 only")
    parser.add_argument(
        "--rounds", type=int, help=f"how often each side is measured ({ROUNDS}; with --quick {QUICK_ROUNDS})"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="how often a measurement is repeated at most while others take more than "
        f"{OTHERS_SHARE_MAX:.0%} of the CPU ({REPEATS}; with --quick {QUICK_REPEATS})",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="only the rows that start with TEXT, or all of one workload as W13; may be repeated",
    )
    parser.add_argument(
        "--minutes", type=float, default=0.2, help="length of a run of W5 (0.2); retries of 30 s from 1.5 on"
    )
    parser.add_argument(
        "--size", type=float, default=1.0, help="of 1: fewer records and seconds, to try the benchmark itself"
    )
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="where the report is written (build)",
        default=SCRIPTS.parent / "build",
    )  # fmt: skip
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = QUICK_ROUNDS if options.quick else ROUNDS
    if options.repeats is None:
        options.repeats = QUICK_REPEATS if options.quick else REPEATS
    if options.rounds < 1 or options.repeats < 0 or options.minutes <= 0 or not 0 < options.size <= 1:
        parser.error("--rounds, --minutes and --size must be above 0, --repeats at least 0, --size at most 1")
    return options


def _is_named(row: Row, text: str) -> bool:
    """Tell whether a row is meant: `W1` is that workload, not W11 as well."""
    return row.work.startswith(f"{text} " if re.fullmatch(r"W\d+", text) else text)


def _whole_rounds(row: Row, sides: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rounds in which each side has all of its windows, of which the middle one counts."""
    rounds = min(map(len, sides.values())) // row.windows
    return {name: _middles(row, each, rounds) for name, each in sides.items()} if rounds else {}


def _middles(row: Row, windows: list[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    in_turn = [windows[number * row.windows : (number + 1) * row.windows] for number in range(rounds)]
    return [sorted(each, key=lambda one: one[row.figure])[row.windows // 2] for each in in_turn]


class Rounds:
    """Measures rows so many times, the sides of each in turn, and shows how far it is."""

    def __init__(self, setting: Setting, rounds: int, repeats: int, console: Console) -> None:
        self._setting, self._rounds, self._repeats, self._console = setting, rounds, repeats, console
        # What rows share in a round, by the side.
        self._shared: dict[tuple[int, str], dict[str, Any]] = {}

    def measure(self, chosen: list[Row]) -> tuple[Figures, str | None]:
        """Return the figures by row and side.

        A side that fails ends it: its words come with what was measured until then.
        """
        figures: Figures = {row.work: {name: [] for name, _ in row.sides} for row in chosen}
        # Round -1 warms up and does not count.
        runs = [
            (number, row, sides)
            for number in range(-1, self._rounds)
            for row in chosen
            if number >= 0 or row.warm_up
            for _ in range(row.windows if number >= 0 else 1)
            for sides in ([row.sides] if row.together else ([side] for side in row.sides))
        ]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task("starting", total=len(runs))
            for done, (number, row, sides) in enumerate(runs):
                at = "warm-up" if number < 0 else f"round {number + 1} of {self._rounds}"
                what = f"{at}: {row.work} ({' and '.join(name for name, _ in sides)})"
                progress.update(task, description=what)
                if not self._console.is_terminal:  # there a bar is drawn only at the end
                    self._console.print(f"{done + 1} of {len(runs)}, {what}", highlight=False, soft_wrap=True)
                try:
                    measured = self._measure(number, row, [side for _, side in sides])
                except MeasurementFailedError as error:
                    return figures, f"{what}: {error}"
                for (name, _), figure in zip(sides, measured, strict=True):
                    if number >= 0:
                        figures[row.work][name].append(figure)
                progress.advance(task)
        return figures, None

    def _measure(self, number: int, row: Row, sides: list[Side]) -> list[dict[str, Any]]:
        """Measure once, or again while others disturb it; what another row has measured is taken."""
        names = [(number, repr(side)) for side in sides]
        if row.shared and all(name in self._shared for name in names):
            return [self._shared[name] for name in names]
        best = self._measure_at_once(sides)
        for _ in range(self._repeats if number >= 0 else 0):
            if _disturbed(best) <= OTHERS_SHARE_MAX or max(one["took_s"] for one in best) > REPEATED_S_MAX:
                break
            self._console.print(f"Once more: others took {_disturbed(best):.0%} of the CPU.", highlight=False)
            best = min(best, self._measure_at_once(sides), key=_disturbed)
        if row.shared:
            self._shared |= dict(zip(names, best, strict=True))
        return best

    def _measure_at_once(self, sides: Iterable[Side]) -> list[dict[str, Any]]:
        chosen = list(sides)
        with ThreadPoolExecutor(len(chosen)) as pool:
            return list(pool.map(lambda side: run_side(self._setting, side), chosen))


def _disturbed(measured: list[dict[str, Any]]) -> float:
    """Return the largest share of the CPU that others took."""
    return max(float(one.get("others_share", 0.0)) for one in measured)
