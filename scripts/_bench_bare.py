"""The limits: bare loops, threads, tasks and calls that do the same work, with nothing of ehkafka.

Each is one measurement of `_bench_work`. They use ehkafka's client properties, so that only what is done
per record differs.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
import uuid
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import confluent_kafka
import orjson
from _bench_handlers import async_handler, handler
from _bench_marks import BEGIN, END, mark

import ehkafka
from ehkafka.endpoint.properties.layers import consumer_properties
from ehkafka.workers.tasks.shared import new_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BATCH_RECORDS = 1_000
# What waits between the reader and the workers, at most.
WAITING_RECORDS_MAX = 20_000


def bare_consumer(
    bootstrap: str,
    topic: str,
    *,
    start: str = "earliest",
    kind: type[confluent_kafka.Consumer] = confluent_kafka.Consumer,
    group: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> confluent_kafka.Consumer:
    """Return a subscribed consumer with the engine's properties, and `more`."""
    properties = consumer_properties(
        ehkafka.Endpoint.kafka(bootstrap),
        group or f"bare-{uuid.uuid4()}",
        {},
        assignor="default",
        instance_id=None,
    )
    properties |= {"auto.offset.reset": start, **(more or {})}
    consumer = kind(properties)
    consumer.subscribe([topic])
    return consumer


def bare_loop(
    bootstrap: str, topic: str, records: int, *, parse: bool = False, drop_in: bool = False
) -> dict[str, Any]:
    """The bare loop: read key and offset of each record and nothing else; with `parse`, JSON too.

    With `drop_in` the same loop with the import changed.
    """
    kind = ehkafka.Consumer if drop_in else confluent_kafka.Consumer
    consumer = bare_consumer(bootstrap, topic, kind=kind)
    seen, started_s = 0, None
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if started_s is None and batch:
            mark(BEGIN)
            started_s = time.perf_counter()
        for message in batch:
            message.key()
            message.offset()
            if parse:
                orjson.loads(message.value())
        seen += len(batch)
    took_s = time.perf_counter() - (started_s or 0.0)
    mark(END)
    consumer.close()
    return {"records": seen, "records_per_s": seen / took_s}


def bare_threads(
    bootstrap: str, topic: str, records: int, *, work: str | float, workers: int
) -> dict[str, Any]:
    """Bare threads: as many as workers, running the same handler; no order, nothing tracked."""
    consumer = bare_consumer(bootstrap, topic)
    waiting: deque[Any] = deque()
    handle = handler(work)
    done = itertools.count(1)
    finished = threading.Event()

    def run() -> None:
        while not finished.is_set():
            try:
                message = waiting.popleft()
            except IndexError:
                time.sleep(0.0005)
                continue
            handle(message)
            if next(done) >= records:
                finished.set()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(workers)]

    def start() -> None:
        for thread in threads:
            thread.start()

    started_s = _read(consumer, waiting, records, finished, start)
    took_s = time.perf_counter() - started_s
    mark(END)
    for thread in threads:
        thread.join()
    consumer.close()
    return {"records": records, "records_per_s": records / took_s}


def hand_tasks(
    bootstrap: str, topic: str, records: int, *, work: str | float, workers: int
) -> dict[str, Any]:
    """Per-key order by hand: so many tasks with a queue each, a key always in the same one; no commits."""
    consumer = bare_consumer(bootstrap, topic)
    handle = async_handler(work)
    done = 0
    finished, began = threading.Event(), threading.Event()
    queues: list[asyncio.Queue[Any]] = []
    loop = new_loop()  # the engine's kind of loop

    async def run(queue: asyncio.Queue[Any]) -> None:
        nonlocal done
        while True:
            await handle(await queue.get())
            done += 1

    async def run_all() -> None:
        queues.extend(asyncio.Queue() for _ in range(workers))
        tasks = [asyncio.create_task(run(queue)) for queue in queues]
        began.set()
        await asyncio.to_thread(finished.wait)
        for task in tasks:
            task.cancel()

    def take(batch: list[Any]) -> None:
        for message in batch:
            queues[hash(message.key()) % workers].put_nowait(message)

    thread = threading.Thread(target=loop.run_until_complete, args=(run_all(),), daemon=True)
    thread.start()
    began.wait()
    seen, started_s = 0, None
    while done < records:
        room = seen - done < WAITING_RECORDS_MAX
        batch = (consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.01)) if room else []
        if batch and started_s is None:
            mark(BEGIN)
            started_s = time.perf_counter()
        if batch:
            loop.call_soon_threadsafe(take, batch)
        else:
            time.sleep(0.002)
        seen += len(batch)
    took_s = time.perf_counter() - (started_s or 0.0)
    mark(END)
    finished.set()
    thread.join()
    loop.close()
    consumer.close()
    return {"records": done, "records_per_s": done / took_s}


def _read(
    consumer: confluent_kafka.Consumer,
    waiting: deque[Any],
    records: int,
    finished: threading.Event,
    start: Callable[[], None],
) -> float:
    """Read until all is finished, `start` at the first record; return when that came."""
    seen, started_s = 0, None
    while not finished.is_set():
        room = seen < records and len(waiting) < WAITING_RECORDS_MAX
        batch = consumer.consume(BATCH_RECORDS, 0.01) if room else []
        if batch and started_s is None:
            mark(BEGIN)
            started_s = time.perf_counter()
            start()
        waiting.extend(batch)
        seen += len(batch)
        if not batch:
            finished.wait(0.002)
    assert started_s is not None
    return started_s


def bare_threads_by_key(
    bootstrap: str, topic: str, records: int, *, work: str | float, workers: int
) -> dict[str, Any]:
    """Bare threads in order: at most as many as keys, each takes a key's records one after another.

    All is read and the threads wait before the clock starts, and a thread takes a whole key at a time:
    nothing is left to do but the work itself.
    """
    consumer = bare_consumer(bootstrap, topic)
    by_key: dict[bytes | None, list[Any]] = defaultdict(list)
    seen = 0
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0.05)
        for message in batch:
            by_key[message.key()].append(message)
        seen += len(batch)
    lanes = deque(by_key.values())
    handle = handler(work)
    go = threading.Event()

    def run() -> None:
        go.wait()
        while lanes:
            try:
                lane = lanes.popleft()
            except IndexError:
                return
            for message in lane:
                handle(message)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(workers, len(by_key)))]
    for thread in threads:
        thread.start()
    mark(BEGIN)
    started_s = time.perf_counter()
    go.set()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - started_s
    mark(END)
    consumer.close()
    return {"records": seen, "records_per_s": seen / took_s}


def bare_calls(bootstrap: str, topic: str, records: int, *, work: str) -> dict[str, Any]:
    """L-cpu: one process calls the handler for one record after another; times the number of cores."""
    consumer = bare_consumer(bootstrap, topic)
    messages: list[Any] = []
    while len(messages) < records:
        messages += consumer.consume(min(BATCH_RECORDS, records - len(messages)), 0.05)
    consumer.close()
    handle = handler(work)
    mark(BEGIN)
    started_s = time.perf_counter()
    for message in messages:
        handle(message)
    one_per_s = records / (time.perf_counter() - started_s)
    mark(END)
    cores = os.cpu_count() or 1
    return {
        "records": records,
        "records_per_s": one_per_s * cores,
        "cores": cores,
        "one_process_per_s": one_per_s,
    }
