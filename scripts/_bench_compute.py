"""Measurements of handlers that compute: ehkafka, a plain loop, and queues as written in an afternoon."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from _bench_bare import BATCH_RECORDS, WAITING_RECORDS_MAX, bare_consumer
from _bench_engine import make_app, stop_now
from _bench_handlers import handler
from _bench_window import EachRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka


def engine_steady(
    bootstrap: str,
    topic: str,
    seconds: float,
    *,
    work: str | float,
    workers: int | str,
    settle_s: float = 0.0,
) -> dict[str, Any]:
    """The engine for so many seconds, after `settle_s` in which it seeks its number of workers."""
    each = EachRecord()
    app = make_app(bootstrap, topic, each.noted(handler(work)), workers=workers)
    app.start()
    time.sleep(settle_s)
    figures = each.watch(seconds)
    found = app.snapshot().handlers[0].workers
    stop_now(app)
    return {**figures, "found": found}


def engine_best(
    bootstrap: str, topic: str, seconds: float, *, work: str | float, counts: list[int]
) -> dict[str, Any]:
    """The engine with each of these numbers of workers, of which the best one counts."""
    found = {
        workers: engine_steady(bootstrap, topic, seconds, work=work, workers=workers) for workers in counts
    }
    best = max(found, key=lambda workers: found[workers]["records_per_s"])
    return {**found[best], "window": counts.index(best)}


def plain_loop(bootstrap: str, topic: str, seconds: float, *, work: str | float) -> dict[str, Any]:
    """One thread reads and calls the handler for one record after another."""
    consumer, each, stopped = bare_consumer(bootstrap, topic), EachRecord(), threading.Event()
    handle = each.noted(handler(work))

    def run() -> None:
        while not stopped.is_set():
            for message in consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05):
                message.key()
                message.offset()
                handle(message)
                if stopped.is_set():
                    return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    figures = each.watch(seconds)
    stopped.set()
    thread.join()
    consumer.close()
    return figures


def hand_queues(
    bootstrap: str, topic: str, seconds: float, *, work: str | float, counts: list[int]
) -> dict[str, Any]:
    """Per-key order by hand: so many threads with a queue each, a key always in the same; no commits.

    With several counts each has its turn, and the best one counts.
    """
    consumer = bare_consumer(bootstrap, topic)
    found = {number: _queues(consumer, handler(work), seconds, number) for number in counts}
    consumer.close()
    best = max(found, key=lambda number: found[number]["records_per_s"])
    return {
        **found[best],
        "window": counts.index(best),
        "queues": best,
        "by_queues": {number: figures["records_per_s"] for number, figures in found.items()},
    }


def _queues(
    consumer: confluent_kafka.Consumer, handle: Callable[[Any], None], seconds: float, number: int
) -> dict[str, Any]:
    queues: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(number)]
    each, stopped = EachRecord(), threading.Event()
    handle = each.noted(handle)

    def work(place: int) -> None:
        take = queues[place].get
        while (message := take()) is not None and not stopped.is_set():
            handle(message)

    def read() -> None:
        seen = 0
        while not stopped.is_set():
            if seen - len(each.at_s) >= WAITING_RECORDS_MAX:
                stopped.wait(0.002)
                continue
            batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
            for message in batch:
                queues[hash(message.key()) % number].put(message)
            seen += len(batch)

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(number)]
    threads.append(threading.Thread(target=read, daemon=True))
    for thread in threads:
        thread.start()
    figures = each.watch(seconds)
    stopped.set()
    threads[-1].join()
    for queue in queues:
        queue.put(None)
    for thread in threads:
        thread.join()
    return figures
