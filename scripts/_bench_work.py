"""One measurement of the benchmark, in a process of its own: `python _bench_work.py NAME OPTIONS-JSON`.

Prints one JSON line. Every measurement reads a topic that was filled before, counts from the first record
it sees to the last, and uses the same client properties, so that only what is done per record differs.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import resource
import sys
import threading
import time
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

import confluent_kafka
import orjson

import ehkafka
from ehkafka.endpoint.properties import consumer_properties

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_RECORDS = 1_000


def main() -> None:
    """Run the measurement named on the command line."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    result = MEASUREMENTS[name](**options)
    result["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(result))


def bare_loop(bootstrap: str, topic: str, records: int, *, parse: bool = False) -> dict[str, Any]:
    """L-raw: read key and offset of each record and nothing else; L-json with `parse`."""
    consumer = _bare_consumer(bootstrap, topic)
    seen, started_s = 0, None
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if started_s is None and batch:
            started_s = time.perf_counter()
        for message in batch:
            message.key()
            message.offset()
            if parse:
                orjson.loads(message.value())
        seen += len(batch)
    took_s = time.perf_counter() - (started_s or 0.0)
    consumer.close()
    return {"records_per_s": seen / took_s}


def engine(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    work_s: float = 0.0,
    workers: int = 16,
    raw: bool = False,
    event_hubs: bool = False,
) -> dict[str, Any]:
    """The engine with a handler that does nothing, or sleeps `work_s` seconds."""
    handler = _handler(work_s)
    app = _app(bootstrap, topic, handler, workers=workers, raw=raw, event_hubs=event_hubs)
    app.start()
    took_s = _time_until(app, records)
    app.stop()
    done = app.snapshot()
    assert done.finished_records >= records, done
    return {
        "records_per_s": records / took_s,
        "commits": done.counters["CommitAcknowledged"],
        "pauses": done.counters["PartitionPaused"],
    }


def bare_threads(bootstrap: str, topic: str, records: int, *, work_s: float, workers: int) -> dict[str, Any]:
    """L-work: as many bare threads as workers, running the same handler; no order, nothing tracked."""
    consumer = _bare_consumer(bootstrap, topic)
    waiting: deque[Any] = deque()
    handler = _handler(work_s)
    done = itertools.count(1)
    finished = threading.Event()

    def work() -> None:
        while not finished.is_set():
            try:
                message = waiting.popleft()
            except IndexError:
                time.sleep(0.0005)
                continue
            handler(message)
            if next(done) >= records:
                finished.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    seen, started_s = 0, None
    while not finished.is_set():
        batch = consumer.consume(BATCH_RECORDS, 0.01) if seen < records and len(waiting) < 20_000 else []
        if batch and started_s is None:
            started_s = time.perf_counter()
            for thread in threads:
                thread.start()
        waiting.extend(batch)
        seen += len(batch)
        if not batch:
            finished.wait(0.002)
    took_s = time.perf_counter() - (started_s or 0.0)
    for thread in threads:
        thread.join()
    consumer.close()
    return {"records_per_s": records / took_s}


def bare_latency(bootstrap: str, topic: str, seconds: float) -> dict[str, Any]:
    """Latency of the bare loop: from the producer's clock in the value to the sight of the record."""
    consumer = _bare_consumer(bootstrap, topic, start="latest")
    latencies: list[float] = []
    _signal_ready(consumer)
    ends_s = time.monotonic() + seconds + 1.0
    while time.monotonic() < ends_s:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        latencies.extend(_age_s(message) for message in batch)
    consumer.close()
    return _percentiles(latencies)


def engine_latency(
    bootstrap: str, topic: str, seconds: float, *, work_s: float = 0.0, hot_s: float = 0.0, workers: int = 16
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

    app = _app(bootstrap, topic, handle, workers=workers, start="latest")
    app.start()
    while not app.snapshot().partitions:
        time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(seconds + 1.0)
    app.stop()
    return _percentiles(latencies)


def produce_live(bootstrap: str, topic: str, seconds: float, per_s: int, hot_per_s: int) -> dict[str, Any]:
    """Send records at a steady pace, each with the clock in its value; `hot_per_s` of them of one key."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": 1})
    started_s = time.monotonic()
    sent = hot = 0
    while (now_s := time.monotonic() - started_s) < seconds:
        while sent < now_s * per_s:
            stamp = b"%020.6f" % time.monotonic()
            producer.produce(topic, stamp.ljust(200, b"x"), b"key-%05d" % (sent % 10_000))
            sent += 1
        while hot < now_s * hot_per_s:
            producer.produce(topic, b"0".ljust(200, b"x"), b"hot")
            hot += 1
        producer.poll(0)
        time.sleep(0.0005)
    producer.flush()
    return {"records": sent}


def _signal_ready(consumer: confluent_kafka.Consumer) -> None:
    while not consumer.assignment():
        consumer.consume(1, 0.05)
    print("ready", flush=True)


def _age_s(message: Any) -> float:
    return time.monotonic() - float(message.value()[:20])


def _percentiles(latencies: list[float]) -> dict[str, Any]:
    # The first quarter warms up connections and caches on both sides.
    ordered = sorted(latencies[len(latencies) // 4 :])
    middle, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return {"records": len(ordered), "p50_ms": middle * 1e3, "p99_ms": high * 1e3}


def _handler(work_s: float) -> Callable[[Any], None]:
    if work_s == 0.0:
        return lambda _record: None
    return lambda _record: time.sleep(work_s)


def _endpoint(bootstrap: str) -> ehkafka.Endpoint:
    return ehkafka.Endpoint.kafka(bootstrap)


def _bare_consumer(bootstrap: str, topic: str, *, start: str = "earliest") -> confluent_kafka.Consumer:
    properties = consumer_properties(
        _endpoint(bootstrap), f"bare-{uuid.uuid4()}", {}, assignor="default", instance_id=None
    )
    properties["auto.offset.reset"] = start
    consumer = confluent_kafka.Consumer(properties)
    consumer.subscribe([topic])
    return consumer


def _app(
    bootstrap: str,
    topic: str,
    handler: Callable[[Any], None],
    *,
    workers: int,
    raw: bool = False,
    start: str = "earliest",
    event_hubs: bool = False,
) -> ehkafka.App:
    endpoint = _endpoint(bootstrap)
    if event_hubs:  # the same broker, with the precautions of Event Hubs
        endpoint = dataclasses.replace(endpoint, kind="event-hubs")
    app = ehkafka.App(group=f"bench-{uuid.uuid4()}", endpoint=endpoint, start=start)
    app.handler(topic, workers=workers, raw=raw)(handler)
    return app


def _time_until(app: ehkafka.App, records: int) -> float:
    """Return the seconds from the first record received to the last one finished."""
    counts = app._runtime.totals  # noqa: SLF001 - cheaper than a snapshot, which would be measured too
    while counts()["received_records"] == 0:
        time.sleep(0.001)
    started_s = time.perf_counter()
    while counts()["finished_records"] < records:
        if app.state != "running":
            app.stop()
        time.sleep(0.002)
    return time.perf_counter() - started_s


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "bare_loop": bare_loop,
    "engine": engine,
    "bare_threads": bare_threads,
    "bare_latency": bare_latency,
    "engine_latency": engine_latency,
    "produce_live": produce_live,
}

if __name__ == "__main__":
    main()
