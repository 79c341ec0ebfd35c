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
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ehkafka.spark.java_home import find_java_home
from ehkafka.testing.kafka.broker import KafkaBroker
from home_pipeline import rules, spark_engine
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.local_engine import TOPIC

sys.path.append(str(Path(__file__).resolve().parents[3]))  # the checkout, for its `tests.kit`
from tests.kit.azurite import Azurite

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 16
SAMPLE_S = 1.0
CHECK_S = 2  # each look costs the driver some milliseconds
HERE = Path(__file__).resolve().parents[1]


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
        return max(sum(sample[name] for name in names or sample) for sample in self.samples)

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self.samples.append(resident_bytes(os.getpid(), self._aside))


def resident_bytes(root: int, aside: set[int]) -> Counter[str]:
    """Return how much of this process and all below it is in memory: the `driver`, `java`, `python`."""
    first, *below = _family(root, aside)
    sizes = Counter(driver=_resident_bytes(first))
    for pid in below:
        sizes["java" if _name(pid) == "java" else "python"] += _resident_bytes(pid)
    return sizes


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
        aside = {pid for pid, parent in map(_parent, _pids()) if parent == os.getpid()}
        before = cpu_ticks()
        with Memory(aside) as memory:
            _measure(broker.bootstrap, options, folder, aside)
        print(f"stolen by the machine's host: {stolen_share(before, cpu_ticks()):.0%} of the CPU time")
        for name in ("java", "python", "driver"):
            print(f"memory of {name}: at most {memory.peak_bytes(name) / 2**20:.0f} MiB")
        print(f"memory together: at most {memory.peak_bytes() / 2**20:.0f} MiB; every tenth of the run, MiB:")
        every = max(1, len(memory.samples) // 10)
        print("  " + " ".join(f"{sample.total() / 2**20:.0f}" for sample in memory.samples[::every]))
    return 0


def _send(bootstrap: str, options: argparse.Namespace, folder: Path) -> None:
    begin_us = time.time_ns() // 1000 - options.count * 1_000_000 // options.rate
    command = ["--bootstrap", bootstrap, "--ledger", str(folder / "ledger.json"), "--begin-us", str(begin_us)]
    command += ["--count", str(options.count), "--rate", str(options.rate), "--homes", str(options.homes)]
    command = [sys.executable, "-m", "home_pipeline.simulate", *command]
    subprocess.run(command, cwd=HERE, check=True)  # noqa: S603 - our own interpreter and module


def _measure(bootstrap: str, options: argparse.Namespace, folder: str, aside: set[int]) -> None:
    spark = spark_engine.session()
    spark.sparkContext.setLogLevel("ERROR")
    begun_s = cpu_seconds(os.getpid(), aside)
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
            used_s = cpu_seconds(os.getpid(), aside) - begun_s
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


def cpu_seconds(root: int, aside: set[int]) -> float:
    """Return the CPU time of this process and all below it; that of those that ended is in their parents."""
    ticks = 0
    for pid in _family(root, aside):
        try:
            numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        except OSError:
            continue  # gone meanwhile
        # A process that ended is counted by its parent; those aside have not ended.
        ticks += sum(map(int, numbers))
    return ticks / os.sysconf("SC_CLK_TCK")


def stolen_share(before: list[int], after: list[int]) -> float:
    """Return which part of the machine's time its host kept for others, between two `cpu_ticks`."""
    passed = [later - earlier for earlier, later in zip(before, after, strict=True)]
    return passed[7] / max(1, sum(passed[:8]))


def cpu_ticks() -> list[int]:
    """Return the counters of all processors: user, nice, system, idle, iowait, irq, softirq, steal."""
    return [*map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])]


def _family(root: int, aside: set[int]) -> list[int]:
    """Return a process and all that it and its children started."""
    parents = dict(map(_parent, _pids()))
    family = [root]
    for pid in family:  # grows while it is gone through
        family += [child for child, parent in parents.items() if parent == pid and child not in aside]
    return family


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _parent(pid: int) -> tuple[int, int]:
    try:
        # The name in brackets may hold anything.
        return pid, int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return pid, 0  # gone meanwhile


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _resident_bytes(pid: int) -> int:
    """Return a process's part of the memory: what it shares with others counts for each a part (PSS)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0  # gone meanwhile


if __name__ == "__main__":
    sys.exit(main())
