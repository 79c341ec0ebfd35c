"""The measurement of the home-security pipeline on Spark: one broker, one Azurite, one query.

Runs inside the environment; see `scripts/home_security_rate` for what it is for.
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
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from _bench_cpu import CpuSample, take_sample
from _environment import ROOT

from ehkafka.spark.java_home import find_java_home
from ehkafka.testing.kafka.broker import KafkaBroker
from tests.kit.azurite import Azurite

sys.path.append(str(ROOT / "examples" / "home_security"))  # for its `home_pipeline`
from home_pipeline import rules, spark_engine
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.readings import TOPIC
from home_pipeline.stage import HERE

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 16
SAMPLE_S = 1.0
CHECK_S = 2  # each look costs the driver some milliseconds


class Memory:
    """Samples what this process and all below it, Kafka and Azurite aside, have resident, by kind."""

    def __init__(self, aside: set[int]) -> None:
        self._aside = aside
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[Counter[str]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def peak_bytes(self, *names: str) -> int:
        """Return the most that processes with these names had together, all of them if none is named."""
        return max(sum(one[name] for name in names or one) for one in self.samples)

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.samples.append(resident_bytes(os.getpid(), self._aside))


def resident_bytes(root: int, aside: set[int]) -> Counter[str]:
    """Return how much of this process and all below it is in memory: the `driver`, `java`, `python`."""
    children = sample().children
    family = [root]
    sizes: Counter[str] = Counter()
    for pid in family:  # grows while it is gone through
        family += [child for child in children[pid] if child not in aside]
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # gone meanwhile
        kind = "driver" if pid == root else "java" if name == "java" else "python"
        # What it shares with others counts for each a part.
        sizes[kind] += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return sizes


def cpu_seconds(aside: set[int]) -> float:
    """Return the CPU time of this process and all below it but those."""
    now = sample()
    return now.of_tree(os.getpid()) - sum(now.of_tree(pid) for pid in aside)


def sample() -> CpuSample:
    """Return what all processes have used until now."""
    found = take_sample()
    assert found is not None, "only Linux tells"
    return found


def main() -> int:
    """Send, run once over it all, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--homes", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000, help="readings in a second of event time")
    parser.add_argument("--window-s", type=int, default=10)
    parser.add_argument("--batch", type=int, default=500_000, help="readings in a batch")
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
        broker.create_topic(TOPIC, PARTITIONS)
        _send(broker.bootstrap, options, Path(folder))
        aside = {*sample().children[os.getpid()]}
        with Memory(aside) as memory:
            _measure(broker.bootstrap, options, folder, aside)
        for name in ("java", "python", "driver"):
            print(f"memory of {name}: at most {memory.peak_bytes(name) / 2**20:.0f} MiB")
        print(f"memory together: at most {memory.peak_bytes() / 2**20:.0f} MiB; every tenth of the run, MiB:")
        every = max(1, len(memory.samples) // 10)
        print("  " + " ".join(f"{one.total() / 2**20:.0f}" for one in memory.samples[::every]))
    return 0


def _send(bootstrap: str, options: argparse.Namespace, folder: Path) -> None:
    begin_us = time.time_ns() // 1000 - options.count * 1_000_000 // options.rate
    command = ["--bootstrap", bootstrap, "--ledger", str(folder / "ledger.json"), "--begin-us", str(begin_us)]
    command += ["--count", str(options.count), "--rate", str(options.rate), "--homes", str(options.homes)]
    command = [sys.executable, "-m", "home_pipeline.simulate", *command]
    subprocess.run(command, cwd=HERE, check=True)


def _measure(bootstrap: str, options: argparse.Namespace, folder: str, aside: set[int]) -> None:
    spark = spark_engine.session()
    spark.sparkContext.setLogLevel("ERROR")
    begun_s = cpu_seconds(aside)
    query = spark_engine.writer(
        spark,
        bootstrap,
        os.environ[CONTAINER],
        f"{folder}/checkpoint",
        windows=rules.Windows(length_s=options.window_s),
        trigger={"availableNow": True},
        most=options.batch,
    ).start()
    batches: list[Any] = []
    while query.isActive or len(batches) < len(_with_input(query)):
        time.sleep(CHECK_S)
        for one in _with_input(query)[len(batches) :]:
            batches.append(one)
            used_s = cpu_seconds(aside) - begun_s
            print(f"{_reported(one)}, {used_s:.1f} s of CPU time so far", flush=True)
    query.awaitTermination()  # raises what made it fail
    counted = batches[1:]
    took_s = sum(one.durationMs["triggerExecution"] for one in counted) / 1000
    rate = sum(one.numInputRows for one in counted) / took_s
    print(f"{rate:,.0f} readings a second after the first batch")
    spark.stop()


def _with_input(query: StreamingQuery) -> list[Any]:
    return [one for one in query.recentProgress if one.numInputRows]


def _reported(one: Any) -> str:
    state = one.stateOperators[0]
    took_s = one.durationMs["triggerExecution"] / 1000
    return (
        f"batch {one.batchId}: {one.numInputRows:,} readings in {took_s:.2f} s, "
        f"{state.numRowsTotal:,} windows open, {state.memoryUsedBytes / 2**20:.0f} MiB of state, "
        f"{state.numRowsDroppedByWatermark} late"
    )


if __name__ == "__main__":
    sys.exit(main())
