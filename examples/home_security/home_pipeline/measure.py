"""Measures the Spark pipeline: readings a second from a real Kafka broker to blobs, and the memory it took.

    python -m home_pipeline.measure --count 1000000

Everything runs on this machine: the broker, Azurite and Spark share its cores. The first batch, which pays
for the start, is not counted; memory is the peak of the driver, its JVM and its Python workers together.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

from ehkafka.spark.java_home import find_java_home
from ehkafka.testing.azurite import Azurite
from ehkafka.testing.kafka import KafkaBroker
from home_pipeline import rules, spark_engine
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container

PARTITIONS = 16
SAMPLE_S = 0.5
HERE = Path(__file__).resolve().parents[1]


class Memory:
    """Samples what this process and its children, Kafka and Azurite aside, have resident."""

    def __init__(self, aside: set[int]) -> None:
        self._aside = aside
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[int] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.samples.append(sum(map(_resident_bytes, self._family())))

    def _family(self) -> list[int]:
        command = ["ps", "-eo", "pid=,ppid="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
        parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.stdout.splitlines())}
        family = [os.getpid()]
        for pid in family:  # grows while it is gone through
            family += [
                child for child, parent in parents.items() if parent == pid and child not in self._aside
            ]
        return family


def main() -> int:
    """Send, run once over it all, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--homes", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000, help="readings in a second of event time")
    parser.add_argument("--window-s", type=int, default=10)
    parser.add_argument("--batch", type=int, default=200_000, help="readings in a batch")
    options = parser.parse_args()
    os.environ |= {
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (
        KafkaBroker(profile="bench") as broker,
        Azurite() as azurite,
        tempfile.TemporaryDirectory() as folder,
    ):
        os.environ[STORAGE] = azurite.connection_string()
        os.environ[CONTAINER] = f"measure-{secrets.token_hex(4)}"
        with open_container() as container:
            create_container(container)
        broker.create_topic(spark_engine.TOPIC, PARTITIONS)
        _send(broker.bootstrap, options, Path(folder))
        aside = set(_children(os.getpid()))
        with Memory(aside) as memory:
            _measure(broker.bootstrap, options, folder)
        print(f"memory: at most {max(memory.samples) / 2**20:.0f} MiB; every tenth of the run, MiB:")
        every = max(1, len(memory.samples) // 10)
        print("  " + " ".join(f"{sample / 2**20:.0f}" for sample in memory.samples[::every]))
    return 0


def _send(bootstrap: str, options: argparse.Namespace, folder: Path) -> None:
    begin_us = time.time_ns() // 1000 - options.count * 1_000_000 // options.rate
    command = ["--bootstrap", bootstrap, "--ledger", str(folder / "ledger.json"), "--begin-us", str(begin_us)]
    command += ["--count", str(options.count), "--rate", str(options.rate), "--homes", str(options.homes)]
    command = [sys.executable, "-m", "home_pipeline.simulate", *command]
    subprocess.run(command, cwd=HERE, check=True)  # noqa: S603 - our own interpreter and module


def _measure(bootstrap: str, options: argparse.Namespace, folder: str) -> None:
    spark = spark_engine.session()
    spark.sparkContext.setLogLevel("ERROR")
    query = spark_engine.start(
        spark,
        bootstrap,
        os.environ[CONTAINER],
        f"{folder}/checkpoint",
        windows=rules.Windows(length_s=options.window_s),
        trigger={"availableNow": True},
        most=options.batch,
    )
    query.awaitTermination()
    batches = [one for one in query.recentProgress if one.numInputRows]
    for one in batches:
        state = one.stateOperators[0]
        took_s = one.durationMs["triggerExecution"] / 1000
        print(
            f"batch {one.batchId}: {one.numInputRows:,} readings in {took_s:.2f} s, "
            f"{state.numRowsTotal:,} windows open, "
            f"{state.memoryUsedBytes / 2**20:.0f} MiB of state, {state.numRowsDroppedByWatermark} late"
        )
    counted = batches[1:]
    took_s = sum(one.durationMs["triggerExecution"] for one in counted) / 1000
    print(f"{sum(one.numInputRows for one in counted) / took_s:,.0f} readings a second after the first batch")
    spark.stop()


def _children(pid: int) -> list[int]:
    command = ["ps", "-o", "pid=", "--ppid", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - see above
    return [int(line) for line in listed.stdout.split()]


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0  # gone meanwhile
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
