"""The benchmark's driver: fills topics, runs both sides of each ratio in turn, writes the table.

Runs inside the environment; see `scripts/bench` for what it is for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
from _bench_row import LETTERS, LIVE, Row, Side, Topic
from _bench_rows import table
from _bench_tables import write_report
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ehkafka.embedded.topics import produce
from ehkafka.testing.faults.commit_throttle import CommitThrottle
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCRIPTS = Path(__file__).resolve().parent
LIVE_PARTITIONS = 8
FILL_S = 600.0
VALUE_BYTES = 200
Figures = dict[str, dict[str, list[dict[str, Any]]]]


class MeasurementFailedError(Exception):
    """One side of a row ended without a result."""


def main(description: str) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="W0, two of W2 and W9 only")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (5)")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="only the rows that start with TEXT; may be repeated"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.2, help="length of a run of W5 (0.2); retries of 30 s from 1.5 on"
    )
    parser.add_argument(
        "--size", type=float, default=1.0, help="of 1: fewer records and seconds, to try the benchmark itself"
    )
    options = parser.parse_args()
    if options.rounds < 1 or options.minutes <= 0 or not 0 < options.size <= 1:
        parser.error("--rounds, --minutes and --size must be above 0, --size at most 1")
    rows, topics = table(quick=options.quick, minutes=options.minutes, size=options.size)
    chosen = [row for row in rows if row.work.startswith(tuple(options.only or [""]))]
    if not chosen:
        parser.error(f"no row starts with {' or '.join(options.only)}")
    console = Console(stderr=True)
    with CommitThrottle() as proxy:
        far = {"far": Listener(advertised_port=proxy.port)}
        with KafkaBroker(profile="bench", listeners=far) as broker:
            proxy.forward_to(broker.bootstrap_for("far"))
            needed = {side.topic for row in chosen for _, side in row.sides} - {LIVE}
            fill(broker, {name: topics[name] for name in sorted(needed)}, console)
            before = cpu_ticks()
            figures, problem = measure(broker.bootstrap, proxy, chosen, options.rounds, console)
    facts = {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "confluent-kafka": str(confluent_kafka.version()),
        "broker": "Apache Kafka 4.2, one node, same machine",
        "rounds": options.rounds,
        "CPU time that the host gave to others": stolen_share(before, cpu_ticks()),
    }
    if options.size != 1.0:
        facts["size"] = f"{options.size:g} of the full one: no result"
    if problem is not None:
        facts["rounds"] = f"{options.rounds}, not all of them: {problem}"
    if whole := [(row, sides) for row in chosen if (sides := _whole_rounds(row, figures[row.work]))]:
        write_report(whole, facts, SCRIPTS.parent / "build")
    if problem is not None:
        raise SystemExit(f"{problem} What was measured until then is in the report.")


def cpu_ticks() -> list[int]:
    """Return what all CPUs did since the boot: user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def stolen_share(before: list[int], after: list[int]) -> str:
    """Say how much of the time in which a CPU was wanted a virtual machine's host kept for others."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    wanted = sum(spent) - spent[3] - spent[4]
    return f"{spent[7] / wanted:.0%}" if wanted else "unknown"


def _whole_rounds(row: Row, sides: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rounds in which each side has all of its windows, of which the middle one counts."""
    rounds = min(map(len, sides.values())) // row.windows
    return {name: _middles(row, each, rounds) for name, each in sides.items()} if rounds else {}


def _middles(row: Row, windows: list[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    in_turn = [windows[number * row.windows : (number + 1) * row.windows] for number in range(rounds)]
    return [sorted(each, key=lambda one: one[row.figure])[row.windows // 2] for each in in_turn]


def fill(broker: KafkaBroker, topics: dict[str, Topic], console: Console) -> None:
    """Create the topics and fill those that are read afterwards."""
    broker.create_topic(LIVE, LIVE_PARTITIONS)
    broker.create_topic(LETTERS, 1)
    for name, topic in topics.items():
        broker.create_topic(name, topic.partitions)
        console.print(f"Filling {name} with {topic.records:,} records …")
        produce(broker.bootstrap, name, _records(topic), timeout_s=FILL_S)


def _records(topic: Topic) -> Iterator[tuple[bytes, bytes]]:
    pick = random.Random(1)  # noqa: S311 - the same records in every run
    # Every key once where there are as many keys as records.
    even = topic.even or topic.keys == topic.records
    for number in range(topic.records):
        key = number % topic.keys if even else pick.randrange(topic.keys)
        yield b"key-%07d" % key, _json(number) if topic.json else _text(number)


def _text(number: int) -> bytes:
    return b"%012d" % number + b"x" * (VALUE_BYTES - 12)


def _json(number: int) -> bytes:
    start = b'{"home":"home-%03d","n":%d,"pad":"' % (number % 1000, number)
    return start + b"x" * (VALUE_BYTES - 2 - len(start)) + b'"}'


def measure(
    bootstrap: str, proxy: CommitThrottle, chosen: list[Row], rounds: int, console: Console
) -> tuple[Figures, str | None]:
    """Run all rounds, the sides of each row in turn; return the figures by row and side.

    A side that fails ends it: its words come with what was measured until then.
    """
    figures: Figures = {row.work: {name: [] for name, _ in row.sides} for row in chosen}
    # Round -1 warms up and does not count.
    runs = [
        (number, row, sides)
        for number in range(-1, rounds)
        for row in chosen
        if number >= 0 or row.warm_up
        for _ in range(row.windows if number >= 0 else 1)
        for sides in ([row.sides] if row.together else ([side] for side in row.sides))
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shared: dict[tuple[int, str], list[dict[str, Any]]] = {}
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting", total=len(runs))
        for number, row, sides in runs:
            at = "warm-up" if number < 0 else f"round {number + 1} of {rounds}"
            names = " and ".join(name for name, _ in sides)
            progress.update(task, description=f"{at}: {row.work} ({names})")
            same = (number, repr(sides))
            try:
                measured = shared.get(same) or _measure_at_once(bootstrap, proxy, sides)
            except MeasurementFailedError as error:
                return figures, f"{at} of {row.work} ({names}): {error}"
            if row.shared:
                shared[same] = measured
            for (name, _), figure in zip(sides, measured, strict=True):
                if number >= 0:
                    figures[row.work][name].append(figure)
            progress.advance(task)
    return figures, None


def _measure_at_once(
    bootstrap: str, proxy: CommitThrottle, sides: Iterable[tuple[str, Side]]
) -> list[dict[str, Any]]:
    chosen = [side for _, side in sides]
    with ThreadPoolExecutor(len(chosen)) as pool:
        return list(pool.map(lambda side: run_side(bootstrap, proxy, side), chosen))


def run_side(bootstrap: str, proxy: CommitThrottle, side: Side) -> dict[str, Any]:
    """Measure one side once, in a process of its own; a live producer is another one."""
    if side.commits is not None:
        proxy.policy, bootstrap = side.commits, proxy.address
    options = {"bootstrap": bootstrap, "topic": side.topic, **side.options}
    command = [sys.executable, str(SCRIPTS / "_bench_work.py"), side.measurement, json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if side.live_per_s:
            _await_ready(process)
            _produce_live(bootstrap, side)
        lines = process.stdout.read().splitlines()
    if process.returncode:
        raise MeasurementFailedError(
            f"{side.measurement} failed with exit code {process.returncode}; see its error above."
        )
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise MeasurementFailedError(f"{process.args!r} ended before it was ready; see its error above.")


def _produce_live(bootstrap: str, side: Side) -> None:
    options = {
        "bootstrap": bootstrap,
        "topic": side.topic,
        "seconds": side.options["seconds"],
        "per_s": side.live_per_s,
        "hot_per_s": side.hot_per_s,
    }
    command = [sys.executable, str(SCRIPTS / "_bench_work.py"), "produce_live", json.dumps(options)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
