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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
from _bench_tables import write_report
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ehkafka.testing.commit_throttle import CommitPolicy, CommitThrottle
from ehkafka.testing.kafka import KafkaBroker
from ehkafka.testing.kafka_properties import Listener
from ehkafka.testing.topics import produce

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = Path(__file__).resolve().parent
PARTITIONS = 8
FILLED_RECORDS = 1_000_000
VALUE = b"x" * 200
TOPIC_KEYS = {"keys10000": 10_000, "keys1": 1, "keys100": 100, "keys1000000": 1_000_000}


@dataclass(frozen=True)
class Side:
    """One measurement: a function of `_bench_work` and its options."""

    measurement: str
    topic: str = "keys10000"
    options: dict[str, Any] = field(default_factory=dict)
    # Records per second that a producer process sends meanwhile; 0: the topic was filled before.
    live_per_s: int = 0
    # What a proxy before the broker does to commits; None: there is no proxy in between.
    commits: CommitPolicy | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table: ours and what it is measured against, and the goal in words."""

    work: str
    ours: Side
    limit: Side
    figure: str = "records_per_s"
    goal: str = ""


def rows(*, quick: bool) -> list[Row]:
    """Return what to measure."""
    found = [
        Row(
            "W0 no-op, `Record`",
            Side("engine", options={"records": FILLED_RECORDS}),
            Side("bare_loop", options={"records": FILLED_RECORDS}),
            goal="≥ 0.22 of L-raw with plain lanes",
        ),
        Row(
            "W0 no-op, raw `Message`",
            Side("engine", options={"records": FILLED_RECORDS, "raw": True}),
            Side("bare_loop", options={"records": FILLED_RECORDS}),
            goal="≥ 0.22 of L-raw with plain lanes",
        ),
    ]
    found += [_w2(*work) for work in (W2_WORK[1:3] if quick else W2_WORK)]
    if not quick:
        found += [_w8(topic) for topic in TOPIC_KEYS]
    found.append(
        Row(
            "W9 latency p99 (ms) at 10 000/s",
            Side("engine_latency", "live", {"seconds": 4.0}, live_per_s=10_000),
            Side("bare_latency", "live", {"seconds": 4.0}, live_per_s=10_000),
            figure="p99_ms",
            goal="≤ the bare loop's + 5 ms",
        )
    )
    if not quick:
        found += [_w4a(), _w6()]
    return found


# Handler time in seconds, and how many records make about two seconds of it on 100 workers.
W2_WORK = [(0.0001, 60_000), (0.001, 60_000), (0.01, 18_000), (0.05, 4_000)]


def _w2(work_s: float, records: int) -> Row:
    options = {"records": records, "work_s": work_s, "workers": 100}
    goal = "≥ 0.95 of L-work" if work_s >= 0.01 else "≥ 0.95 of L-work until the CPU is full"
    return Row(
        f"W2 {work_s * 1e3:g} ms, 100 threads",
        Side("engine", options=options),
        Side("bare_threads", options=options),
        goal=goal,
    )


def _w8(topic: str) -> Row:
    options = {"records": FILLED_RECORDS}
    return Row(
        f"W8 {TOPIC_KEYS[topic]:,} keys",
        Side("engine", topic, options),
        Side("bare_loop", topic, options),
        goal="within 20 % of each other; memory flat",
    )


def _w4a() -> Row:
    cold = {"seconds": 8.0, "work_s": 0.001, "workers": 100}
    return Row(
        "W4 (a) p99 (ms) of 1 ms keys beside a hot key at 80 %",
        Side("engine_latency", "live", {**cold, "hot_s": 0.02}, live_per_s=2_000),
        Side("engine_latency", "live", {**cold, "hot_s": 0.001}, live_per_s=2_000),
        figure="p99_ms",
        goal="≤ 1.2 × without it",
    )


def _w6() -> Row:
    options = {"records": 200_000, "work_s": 0.001, "workers": 100, "event_hubs": True}
    # As Event Hubs was seen to do it: 1.1 s each, and beyond two a second none.
    slow = CommitPolicy(
        delay_s=1.1, per_s=2, excess_code=confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS
    )
    return Row(
        "W6 1 ms, 100 threads, commits of 1.1 s",
        Side("engine", options=options, commits=slow),
        Side("engine", options=options, commits=CommitPolicy()),
        goal="≥ 0.98 of the same with quick commits",
    )


def main(description: str) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="W0, W2 and W9 only")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (5)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows that start with TEXT")
    options = parser.parse_args()
    chosen = [row for row in rows(quick=options.quick) if row.work.startswith(options.only)]
    if not chosen:
        parser.error(f"no row starts with {options.only!r}")
    console = Console(stderr=True)
    with CommitThrottle() as proxy:
        far = {"far": Listener(advertised_port=proxy.port)}
        with KafkaBroker(profile="bench", listeners=far) as broker:
            proxy.forward_to(broker.bootstrap_for("far"))
            fill(broker, {side.topic for row in chosen for side in (row.ours, row.limit)}, console)
            figures = measure(broker.bootstrap, proxy, chosen, options.rounds, console)
    facts = {
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "confluent-kafka": str(confluent_kafka.version()),
        "broker": "Apache Kafka 4.2, one node, same machine",
        "rounds": options.rounds,
    }
    write_report([(row, figures[row.work]) for row in chosen], facts, SCRIPTS.parent / "build")


def fill(broker: KafkaBroker, topics: set[str], console: Console) -> None:
    """Create the topics and fill those that are read afterwards."""
    for topic in sorted(topics):
        broker.create_topic(topic, PARTITIONS)
        if topic in TOPIC_KEYS:
            console.print(f"Filling {topic} with {FILLED_RECORDS:,} records …")
            produce(broker.bootstrap, topic, _records(TOPIC_KEYS[topic]))


def _records(keys: int) -> Iterator[tuple[bytes, bytes]]:
    pick = random.Random(1)  # noqa: S311 - the same records in every run
    for number in range(FILLED_RECORDS):
        # Every key once where there are as many keys as records; else drawn.
        yield b"key-%07d" % (number if keys == FILLED_RECORDS else pick.randrange(keys)), VALUE


def measure(
    bootstrap: str, proxy: CommitThrottle, chosen: list[Row], rounds: int, console: Console
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Run all rounds, the two sides of each row in turn; return the figures by row and side."""
    figures: dict[str, dict[str, list[dict[str, Any]]]] = {
        row.work: {"ours": [], "limit": []} for row in chosen
    }
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("warming up", total=(rounds + 1) * len(chosen) * 2)
        for number in range(-1, rounds):  # round -1 warms up and does not count
            for row in chosen:
                for name, side in (("limit", row.limit), ("ours", row.ours)):
                    progress.update(task, description=f"{row.work} ({name})")
                    if side.commits is not None:
                        proxy.policy = side.commits
                    figure = run_side(bootstrap if side.commits is None else proxy.address, side)
                    if number >= 0:
                        figures[row.work][name].append(figure)
                    progress.advance(task)
    return figures


def run_side(bootstrap: str, side: Side) -> dict[str, Any]:
    """Measure one side once, in a process of its own; a live producer is another one."""
    options = {"bootstrap": bootstrap, "topic": side.topic, **side.options}
    command = [sys.executable, str(SCRIPTS / "_bench_work.py"), side.measurement, json.dumps(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if side.live_per_s:
            assert process.stdout.readline().strip() == "ready"
            _produce_live(bootstrap, side)
        lines = process.stdout.read().splitlines()
    if process.returncode:
        raise SystemExit(
            f"{side.measurement} failed with exit code {process.returncode}; see its error above."
        )
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def _produce_live(bootstrap: str, side: Side) -> None:
    options = {
        "bootstrap": bootstrap,
        "topic": side.topic,
        "seconds": side.options["seconds"],
        "per_s": side.live_per_s,
        "hot_per_s": 40 if "hot_s" in side.options else 0,
    }
    command = [sys.executable, str(SCRIPTS / "_bench_work.py"), "produce_live", json.dumps(options)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
