"""`scripts/bench --peers`: reads the command line, makes environments, fills topics, measures, takes.

Runs inside the project's environment; see `scripts/bench` for what it is for.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from ehkafka.testing.kafka.broker import KafkaBroker
from peers import raw
from peers.catalogue import Side, all_sides
from peers.environments import ROOT, EnvironmentFailedError, command_of
from peers.load import FillError, fill
from peers.measure import Setting
from peers.page import build_page, write_page
from peers.plan import Filled, Row, chosen, rows
from peers.rounds import in_turn, minutes, run_all

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS, SECONDS = 3, 2.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 2.0
# Commits of ehkafka as Apache Kafka takes them; what is deleted goes at once, since each measurement that
# sends something leaves hundreds of megabytes.
BROKER = {
    "offset.metadata.max.bytes": 4096,
    "log.segment.delete.delay.ms": 1000,
    "log.cleaner.enable": "false",
}


def main(description: str) -> int:
    """Measure, or take what was measured; return 1 where a side failed."""
    options = _options(description)
    console = Console(stderr=True)
    try:
        if options.take:
            raw.take(raw.read_run())
        if options.take or options.page:
            write_page(raw.read_taken())
            console.print(
                f"Written: docs/project/peers.md and its pictures, from {raw.TAKEN.relative_to(ROOT)}."
            )
            return 0
        return _measure(options, console)
    except (raw.RawError, FillError) as error:
        console.print(escape(str(error)), highlight=False)
        return 2


def _measure(options: argparse.Namespace, console: Console) -> int:
    all_rows = chosen(rows(quick=options.quick), options.only)
    sides = _chosen_sides(options.sides)
    commands, left_out = environments(sides, console)
    turns = in_turn(all_rows, [side for side in sides if side.name in commands], options.rounds)
    if not turns:
        raise raw.RawError("No side does such work: see --only and --sides.")
    console.print(f"{len(turns)} measurements, about {minutes(turns, options.seconds):.0f} minutes.")
    started_s = time.monotonic()
    with KafkaBroker(profile="bench", properties=BROKER) as broker:
        for topic in _topics(all_rows):
            console.print(f"Filling {topic.name} with {topic.records:,} records …")
            fill(broker, topic)
        writer = raw.Writer(raw.BUILD, _facts(options) | {"left_out": left_out})
        setting = Setting(broker, options.seconds, lambda side: commands[side.name])
        failures = run_all(setting, turns, writer, console)
        writer.end()
    console.print(f"Took {(time.monotonic() - started_s) / 60:.1f} minutes.")
    console.print(f"Written: {build_page()} and {raw.RAW}; --take puts them into docs.", soft_wrap=True)
    for failure in [*failures, *left_out.values()]:
        console.print(f"[red]failed:[/] {escape(failure)}", highlight=False)
    return 1 if failures or left_out else 0


def environments(
    sides: list[Side], console: Console, *, command: Callable[[Side], list[str]] = command_of
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Make what is missing; return each side's command, and why others are left out, by their titles."""
    commands, left_out = {}, {}
    for side in sides:
        console.print(f"Environment of {side.title} …")
        try:
            commands[side.name] = command(side)
        except EnvironmentFailedError as error:
            left_out[side.title] = str(error)
            console.print(f"[red]left out:[/] {escape(str(error))}", highlight=False)
    return commands, left_out


def _chosen_sides(names: str | None) -> list[Side]:
    sides = all_sides()
    if names is None:
        return sides
    wanted = names.split(",")
    if unknown := set(wanted) - {side.name for side in sides}:
        known = ", ".join(side.name for side in sides)
        raise raw.RawError(f"No side is called {', '.join(sorted(unknown))}: there are {known}.")
    return [side for side in sides if side.name in wanted]


def _topics(all_rows: list[Row]) -> list[Filled]:
    found = {row.topic.name: row.topic for row in all_rows if isinstance(row.topic, Filled)}
    return list(found.values())


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    parts = ["--quick"] if options.quick else []
    parts += [f"--only {text}" for text in options.only or ()]
    parts += [f"--sides {options.sides}"] if options.sides else []
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit,
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "broker": "Apache Kafka 4.2, one node, same machine",
        "rounds": options.rounds,
        "seconds": options.seconds,
        "part": " ".join(parts),
    }


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", action="store_true", help="compare with other libraries: this command")
    parser.add_argument("--quick", action="store_true", help="the most important works, one round")
    parser.add_argument(
        "--only",
        action="append",
        metavar="W2",
        help="one workload, or one row by its whole name; may be repeated",
    )
    parser.add_argument(
        "--sides", metavar="A,B", help="only these sides, as the files in scripts/peers/sides"
    )
    parser.add_argument(
        "--rounds", type=int, help=f"how often each is measured ({ROUNDS}; with --quick {QUICK_ROUNDS})"
    )
    parser.add_argument(
        "--seconds", type=float, help=f"length of a window ({SECONDS:g}; with --quick {QUICK_SECONDS:g})"
    )
    parser.add_argument(
        "--take",
        action="store_true",
        help="put the whole rounds of the last run into docs, without measuring",
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="write the page again from the run that it shows, without measuring",
    )
    options = parser.parse_args()
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main(__doc__ or ""))
