"""The benchmark's driver: fills topics, runs the sides of each row in turn, writes the report.

Runs inside the environment; see `scripts/bench` for what it is for.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import confluent_kafka
from _bench_cpu import OTHERS_SHARE_MAX
from _bench_fill import fill
from _bench_rounds import Rounds, whole_rounds
from _bench_row import LIVE
from _bench_rows import named, table
from _bench_side import SCRIPTS, Setting
from _bench_tables import write_report
from rich.console import Console

from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.faults.kafka_proxy import KafkaProxy

ROUNDS, QUICK_ROUNDS = 5, 2
# How often a measurement is repeated while others take much of the CPU.
REPEATS, QUICK_REPEATS = 2, 1
# As Apache Kafka has it; with the broker's other default of 1024 each run begins with refused commits.
BROKER = {"offset.metadata.max.bytes": 4096}


def main(description: str) -> None:
    """Measure and write."""
    options = _options(description)
    rows, topics = table(quick=options.quick, minutes=options.minutes, size=options.size)
    chosen = named(rows, options.only)
    if not chosen:
        raise SystemExit(f"No row starts with {' or '.join(options.only)}.")
    console = Console(stderr=True)
    started_s = time.monotonic()
    with KafkaProxy() as proxy:
        far = {"far": Listener(advertised_port=proxy.port)}
        with KafkaBroker(profile="bench", listeners=far, properties=BROKER) as broker:
            proxy.forward_to(broker.bootstrap_for("far"))
            needed = {side.topic for row in chosen for _, side in row.sides} - {LIVE}
            fill(broker, {name: topics[name] for name in sorted(needed)}, console)
            setting = Setting(broker, proxy, topics)
            rounds = Rounds(setting, options.rounds, options.repeats, console)
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
    if whole := [(row, sides) for row in chosen if (sides := whole_rounds(row, figures[row.work]))]:
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
        f"{100 * OTHERS_SHARE_MAX:.0f} %% of the CPU ({REPEATS}; with --quick {QUICK_REPEATS})",
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
