"""Runs one side of a row once, in a process of its own, and adds what the CPUs did meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _bench_cpu import take_sample, usage
from _bench_marks import BEGIN, END, READY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _bench_cpu import CpuSample
    from _bench_row import Side, Topic

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

SCRIPTS = Path(__file__).resolve().parent


class MeasurementFailedError(Exception):
    """One side of a row ended without a result."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The broker that all sides use, the proxy before it, and what fills its topics."""

    broker: KafkaBroker
    proxy: KafkaProxy
    topics: Mapping[str, Topic]

    def log_bytes_per_record(self, topic: str) -> float:
        """Return what a record of a filled topic takes in the broker's log."""
        segments = (self.broker.directory / "data").glob(f"{topic}-*/*.log")
        return sum(segment.stat().st_size for segment in segments) / self.topics[topic].records


def run_side(setting: Setting, side: Side) -> dict[str, Any]:
    """Measure one side once; a live producer is another process."""
    bootstrap = setting.broker.bootstrap
    if side.commits is not None:
        setting.proxy.policy, bootstrap = side.commits, setting.proxy.address
    options = {"bootstrap": bootstrap, "topic": side.topic, **side.options}
    if side.counts_bytes:
        options["log_bytes_per_record"] = setting.log_bytes_per_record(side.topic)
    started_s = time.monotonic()
    with subprocess.Popen(_command(side.measurement, options), stdout=subprocess.PIPE, text=True) as process:
        run = _Run(process, setting, side, bootstrap)
        result = run.follow()
    if process.returncode or not result:
        raise MeasurementFailedError(
            f"{side.measurement} failed with exit code {process.returncode}; see its error above."
        )
    used = run.used(result.pop("window", -1), result["records"])
    return {**result, **used, "took_s": time.monotonic() - started_s}


def _command(measurement: str, options: Mapping[str, Any]) -> list[str]:
    return [sys.executable, str(SCRIPTS / "_bench_work.py"), measurement, json.dumps(options)]


class _Run:
    """A measuring process, and the samples taken where it says that what counts begins and ends."""

    def __init__(self, process: subprocess.Popen[str], setting: Setting, side: Side, bootstrap: str) -> None:
        self._process, self._setting, self._side, self._bootstrap = process, setting, side, bootstrap
        # At the beginning and the end of each window, of which the result says which one counts.
        self._begun: list[CpuSample | None] = []
        self._ended: list[CpuSample | None] = []
        # How many records a live producer sent.
        self._sent: int | None = None

    def follow(self) -> dict[str, Any]:
        """Read what the process says until it ends; return its result, empty where there is none."""
        assert self._process.stdout is not None
        result: dict[str, Any] = {}
        for line in map(str.strip, self._process.stdout):
            if line == BEGIN:
                self._begun.append(take_sample())
            elif line == END:
                self._ended.append(take_sample())
            elif line == READY:
                self._begun.append(take_sample())
                self._sent = self._produce_live()
                self._ended.append(take_sample())
            elif line.startswith("{"):
                result = json.loads(line)
            else:
                print(line, file=sys.stderr)
        return result

    def used(self, window: int, records: int) -> dict[str, float]:
        """Return what the CPUs did in one of its windows."""
        assert self._setting.broker.pid is not None
        return usage(
            self._begun[window],
            self._ended[window],
            measured=self._process.pid,
            broker=self._setting.broker.pid,
            records=records if self._sent is None else self._sent,
        )

    def _produce_live(self) -> int:
        options = {
            "bootstrap": self._bootstrap,
            "topic": self._side.topic,
            "seconds": self._side.options["seconds"],
            "per_s": self._side.live_per_s,
            "hot_per_s": self._side.hot_per_s,
        }
        done = subprocess.run(
            _command("produce_live", options), check=True, stdout=subprocess.PIPE, text=True
        )
        return int(json.loads(done.stdout.splitlines()[-1])["records"])
