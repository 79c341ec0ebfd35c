"""Per-key order by hand, on threads or on tasks, as a good engineer writes it: with confluent-kafka 2.16.1.

Mode: so many workers, each with a deque and a gate of its own; the hash of a key names its worker, which
keeps the key in order. It commits nothing, which is in its favour. A retry waits in its worker.
Settings: those of `bare.py`. Tasks run on uvloop (https://uvloop.readthedocs.io), and their own loop polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import confluent_kafka
import orjson
import uvloop
from protocol import HOT_KEY, POISON, Options, Report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BATCH_RECORDS = 1_000
WAITING_RECORDS_MAX = 20_000
IDLE_S, FULL_S = 0.05, 0.001
# Works of which the handler counts the records, for not all of them count.
COUNTED_BY_HANDLER = ("hot", "poison")


def main() -> None:
    """Do the work that the options name until the side is to end."""
    options, report = Options.from_arguments(), Report()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([options.topic])
    if options.kind == "tasks":
        uvloop.run(Tasks(options, report, consumer).run())
    else:
        Threads(options, report, consumer).run()
    consumer.close()


class Threads:
    """One thread reads; each worker is a thread that sleeps at its gate while its deque is empty."""

    def __init__(self, options: Options, report: Report, consumer: confluent_kafka.Consumer) -> None:
        self._options, self._report, self._consumer = options, report, consumer
        numbers = range(options.workers)
        self._queues: list[deque[Any]] = [deque() for _ in numbers]
        self._gates = [threading.Lock() for _ in numbers]
        self._is_asleep = [False for _ in numbers]
        self._done = [_done_cell(options, report) for _ in numbers]

    def run(self) -> None:
        """Read until the side is to end."""
        threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(self._options.workers)
        ]
        for gate in self._gates:
            gate.acquire()
        for thread in threads:
            thread.start()
        self._report.ready()
        self._read()

    def _read(self) -> None:
        queues, is_asleep, gates, number = self._queues, self._is_asleep, self._gates, self._options.workers
        consume, stopping, done = self._consumer.consume, self._report.stopping, self._done
        seen = 0
        while not stopping.is_set():
            if seen - sum(one[0] for one in done) >= WAITING_RECORDS_MAX:
                time.sleep(FULL_S)
                continue
            batch = consume(BATCH_RECORDS, 0) or consume(1, IDLE_S)
            for message in batch:
                place = hash(message.key()) % number
                queues[place].append(message)
                if is_asleep[place]:
                    is_asleep[place] = False
                    # It may be open already: the worker has seen the record by itself.
                    with contextlib.suppress(RuntimeError):
                        gates[place].release()
            seen += len(batch)

    def _work(self, number: int) -> None:
        queue, gate, is_asleep, done = (
            self._queues[number],
            self._gates[number],
            self._is_asleep,
            self._done[number],
        )
        handle = _handler(self._options, self._report)
        while True:
            while queue:
                handle(queue.popleft())
                done[0] += 1
            is_asleep[number] = True
            # A second look: the reader may have put something there before it could see the flag.
            if not queue:
                gate.acquire()


class Tasks:
    """The loop reads whenever nothing else is to do; each worker is a task that waits for its deque."""

    def __init__(self, options: Options, report: Report, consumer: confluent_kafka.Consumer) -> None:
        self._options, self._report, self._consumer = options, report, consumer
        numbers = range(options.workers)
        self._queues: list[deque[Any]] = [deque() for _ in numbers]
        self._gates: list[asyncio.Future[None] | None] = [None for _ in numbers]
        self._done = _done_cell(options, report)

    async def run(self) -> None:
        """Read until the side is to end."""
        tasks = [asyncio.create_task(self._work(number)) for number in range(self._options.workers)]
        self._report.ready()
        seen = 0
        queues, gates, number = self._queues, self._gates, self._options.workers
        while not self._report.stopping.is_set():
            if seen - self._done[0] >= WAITING_RECORDS_MAX:
                await asyncio.sleep(FULL_S)
                continue
            batch = self._consumer.consume(BATCH_RECORDS, 0)
            for message in batch:
                place = hash(message.key()) % number
                queues[place].append(message)
                gate = gates[place]
                if gate is not None:
                    gates[place] = None
                    gate.set_result(None)
            seen += len(batch)
            await asyncio.sleep(0 if batch else FULL_S)
        for task in tasks:
            task.cancel()

    async def _work(self, number: int) -> None:
        queue, gates, done = self._queues[number], self._gates, self._done
        handle, make_gate = (
            _async_handler(self._options, self._report),
            asyncio.get_running_loop().create_future,
        )
        while True:
            while queue:
                await handle(queue.popleft())
                done[0] += 1
            gates[number] = gate = make_gate()
            await gate


def _done_cell(options: Options, report: Report) -> list[int]:
    """Return a worker's count of what has left its deque; it is reported where all of it counts."""
    return [0] if options.work in COUNTED_BY_HANDLER else report.cell()


def _handler(options: Options, report: Report) -> Callable[[Any], Any]:
    """Return what a worker's thread does with a record."""
    sleep, draw_s, hot_s = time.sleep, options.sleep_s(), options.hot_ms / 1e3

    def sleep_for(_message: Any) -> None:
        sleep(draw_s())

    def sleep_by_key(message: Any) -> None:
        if message.key() == HOT_KEY:
            sleep(hot_s)
        else:
            report.age(message.value())
            sleep(draw_s())
            handled[0] += 1

    def fail_once(message: Any) -> None:
        sleep(draw_s())
        if message.value().startswith(POISON):
            failed[0] += 1
            sleep(options.retry_s)
            sleep(draw_s())
        else:
            handled[0] += 1

    if options.work in COUNTED_BY_HANDLER:
        handled = report.cell()
    if options.work == "poison":
        failed = report.cell(failed=True)
    return {
        "noop": lambda _message: None,
        "json": lambda message: orjson.loads(message.value()),
        "latency": lambda message: report.age(message.value()),
        "sleep": sleep_for,
        "hot": sleep_by_key,
        "poison": fail_once,
    }[options.work]


def _async_handler(options: Options, report: Report) -> Callable[[Any], Awaitable[None]]:
    """Return the same for a worker's task."""
    sleep, draw_s, hot_s = asyncio.sleep, options.sleep_s(), options.hot_ms / 1e3

    async def nothing(_message: Any) -> None:
        pass

    async def parse(message: Any) -> None:
        orjson.loads(message.value())

    async def age(message: Any) -> None:
        report.age(message.value())

    async def sleep_for(_message: Any) -> None:
        await sleep(draw_s())

    async def sleep_by_key(message: Any) -> None:
        if message.key() == HOT_KEY:
            await sleep(hot_s)
        else:
            report.age(message.value())
            await sleep(draw_s())
            handled[0] += 1

    async def fail_once(message: Any) -> None:
        await sleep(draw_s())
        if message.value().startswith(POISON):
            failed[0] += 1
            await sleep(options.retry_s)
            await sleep(draw_s())
        else:
            handled[0] += 1

    if options.work in COUNTED_BY_HANDLER:
        handled = report.cell()
    if options.work == "poison":
        failed = report.cell(failed=True)
    return {
        "noop": nothing,
        "json": parse,
        "latency": age,
        "sleep": sleep_for,
        "hot": sleep_by_key,
        "poison": fail_once,
    }[options.work]


if __name__ == "__main__":
    main()
