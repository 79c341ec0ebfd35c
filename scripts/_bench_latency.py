"""Measurements of latency: a producer sends meanwhile, each record with the clock in its value."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from _bench_bare import BATCH_RECORDS, bare_consumer
from _bench_engine import make_app, stop_now
from _bench_marks import READY, mark
from peers.producer import send

from ehkafka.events import PartitionPaused

if TYPE_CHECKING:
    import ehkafka


def bare_latency(bootstrap: str, topic: str, seconds: float) -> dict[str, Any]:
    """Latency of the bare loop: from the producer's clock in the value to the sight of the record."""
    consumer = bare_consumer(bootstrap, topic, start="latest")
    latencies: list[float] = []
    while not consumer.assignment():
        consumer.consume(1, 0.05)
    mark(READY)
    ends_s = time.monotonic() + seconds + 1.0
    while time.monotonic() < ends_s:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        latencies.extend(_age_s(message) for message in batch)
    consumer.close()
    return _percentiles(latencies)


def engine_latency(
    bootstrap: str,
    topic: str,
    seconds: float,
    *,
    work_s: float = 0.0,
    hot_s: float = 0.0,
    workers: int = 16,
    observed: bool = False,
) -> dict[str, Any]:
    """Latency of the engine: from the producer's clock in the value to the handler's start.

    Records of the key `hot` take `hot_s`, the others `work_s`; only the others count.
    """
    latencies: list[float] = []

    def handle(record: Any) -> None:
        if record.key() == b"hot":
            time.sleep(hot_s)
            return
        latencies.append(_age_s(record))
        if work_s:
            time.sleep(work_s)

    options = {"workers": workers, "observed": observed}
    app = make_app(bootstrap, topic, handle, start="latest", **options)
    _run_live(app, seconds)
    app.stop()
    return _percentiles(latencies)


class Pauses:
    """A hook that notes when a partition was paused first, by its number."""

    def __init__(self) -> None:
        self.first_s: dict[int, float] = {}

    def on_event(self, event: ehkafka.events.Event) -> None:
        """Note the first pause of each partition."""
        if isinstance(event, PartitionPaused):
            self.first_s.setdefault(event.partition.partition, time.monotonic())


def engine_overload(
    bootstrap: str,
    topic: str,
    seconds: float,
    *,
    hot_s: float,
    hot_per_s: int,
    backlog_records_max: int,
) -> dict[str, Any]:
    """A key far above what its lane can do: the others' latency, and when its partition was paused.

    `p99_ms` is that of records in other partitions than the hot key's. In that partition its neighbours
    stall once half of the backlog is full: by the formula, after that ÷ (rate in less rate handled).
    """
    latencies: list[tuple[int, float]] = []
    hot: list[tuple[int, float]] = []
    lock = threading.Lock()

    def handle(record: Any) -> None:
        if record.key() == b"hot":
            with lock:
                if not hot:
                    hot.append((record.partition(), time.monotonic()))
            time.sleep(hot_s)
            return
        latencies.append((record.partition(), _age_s(record)))
        time.sleep(0.001)

    pauses = Pauses()
    options = {"workers": 100, "backlog_records_max": backlog_records_max}
    app = make_app(bootstrap, topic, handle, start="latest", **options)
    app.add_hook(pauses)
    _run_live(app, seconds)
    stop_now(app)
    home, began_s = hot[0] if hot else (-1, 0.0)
    result = _percentiles([age_s for partition, age_s in latencies if partition != home])
    if not hot:
        return result
    near = _percentiles([age_s for partition, age_s in latencies if partition == home])
    return {
        **result,
        # Where it never was: not before the end.
        "paused_s": pauses.first_s.get(home, began_s + seconds) - began_s,
        "was_paused": home in pauses.first_s,
        "formula_s": backlog_records_max / 2 / (hot_per_s - 1 / hot_s),
        "others_paused": sorted(set(pauses.first_s) - {home}),
        "neighbours_p99_ms": near["p99_ms"],
    }


def _run_live(app: ehkafka.App, seconds: float) -> None:
    app.start()
    while not app.snapshot().partitions:
        time.sleep(0.01)
    mark(READY)
    time.sleep(seconds + 1.0)


def produce_live(bootstrap: str, topic: str, seconds: float, per_s: int, hot_per_s: int) -> dict[str, Any]:
    """Send records at a steady pace, each with the clock in its value; `hot_per_s` of them of one key."""
    ends_s = time.monotonic() + seconds
    return {"records": send(bootstrap, topic, per_s, hot_per_s, lambda: time.monotonic() >= ends_s)}


def _age_s(message: Any) -> float:
    value = message.value()
    return (time.monotonic_ns() - int(value[: value.index(b" ")])) / 1e9


def _percentiles(latencies: list[float]) -> dict[str, Any]:
    # The first quarter warms up connections and caches on both sides.
    ordered = sorted(latencies[len(latencies) // 4 :])
    middle, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return {"records": len(ordered), "p50_ms": middle * 1e3, "p99_ms": high * 1e3}
