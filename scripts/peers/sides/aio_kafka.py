"""aiokafka 0.14.0 on uvloop.

Modes: `getmany`, one loop that handles what it gets, in the order of each partition; `tasks`, a task for each
worker with a deque of its own, by hand, in the order of each key, which commits nothing.

Settings (https://aiokafka.readthedocs.io/en/stable/api.html and …/en/stable/consumer.html):

- `enable_auto_commit` off, and `commit()` each second once everything returned is handled: at least once.
- `getmany(timeout_ms=50, max_records=10000)`, or the work's batches.
- outputs: `linger_ms` 5 and `max_batch_size` near the request's limit; `send()`, then `flush()`, which waits
  for all answers. Exactly once by `transaction()`, about 0.1 s each
  (https://aiokafka.readthedocs.io/en/stable/examples/transaction_example.html); it sends offsets with the
  group's name alone, without the generation.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from protocol import HOT_KEY, POISON, Options, Report
from reading import Reading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

BATCH_RECORDS = 10_000
WAITING_RECORDS_MAX = 20_000
POLL_MS, FULL_S = 50, 0.001
COMMIT_S, TRANSACTION_S = 1.0, 0.1
SENDING = {"linger_ms": 5, "max_batch_size": 900_000}
# Works of which the handler counts the records, for not all of them count.
COUNTED_BY_HANDLER = ("hot", "poison")


def main() -> None:
    """Do the work that the options name until the side is to end."""
    uvloop.run(run(Options.from_arguments(), Report()))


async def run(options: Options, report: Report) -> None:
    """Consume in this mode."""
    consumer = AIOKafkaConsumer(
        options.topic,
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    way = {"output": send, "exactly_once": send_exactly_once}.get(options.work, handle_each)
    try:
        await (
            Tasks(options, report, consumer).run()
            if options.mode == "tasks"
            else way(options, report, consumer)
        )
    finally:
        await consumer.stop()


async def handle_each(options: Options, report: Report, consumer: AIOKafkaConsumer) -> None:
    """Handle what `getmany` returns, and commit each second."""
    records_max = options.batch_records if options.work == "batch" else BATCH_RECORDS
    handle, cell, committed_s = _handler(options, report), report.cell(), time.monotonic()
    report.ready()
    while not report.stopping.is_set():
        for messages in (await consumer.getmany(timeout_ms=POLL_MS, max_records=records_max)).values():
            handle(messages)
            cell[0] += len(messages)
        if time.monotonic() > committed_s + COMMIT_S:
            committed_s = time.monotonic()
            await consumer.commit()


async def send(options: Options, report: Report, consumer: AIOKafkaConsumer) -> None:
    """Send on what `getmany` returns, wait for the answers, and commit each second."""
    producer = AIOKafkaProducer(bootstrap_servers=options.bootstrap, **SENDING)
    await producer.start()
    cell, committed_s = report.cell(), time.monotonic()
    report.ready()
    while not report.stopping.is_set():
        found = await consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH_RECORDS)
        futures = [await producer.send(options.output_topic, one.value, one.key) for one in _each(found)]
        await producer.flush()
        for future in futures:
            future.result()
        cell[0] += len(futures)
        if time.monotonic() > committed_s + COMMIT_S:
            committed_s = time.monotonic()
            await consumer.commit()
    await producer.stop()


async def send_exactly_once(options: Options, report: Report, consumer: AIOKafkaConsumer) -> None:
    """Send on what `getmany` returns in a transaction each 0.1 s."""
    producer = AIOKafkaProducer(
        bootstrap_servers=options.bootstrap, transactional_id=options.group, **SENDING
    )
    await producer.start()
    cell = report.cell()
    report.ready()
    while not report.stopping.is_set():
        began_s, sent = time.monotonic(), 0
        offsets: dict[Any, int] = {}
        async with producer.transaction():
            while time.monotonic() < began_s + TRANSACTION_S:
                found = await consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH_RECORDS)
                for message in _each(found):
                    await producer.send(options.output_topic, message.value, message.key)
                    sent += 1
                offsets |= {partition: messages[-1].offset + 1 for partition, messages in found.items()}
            if offsets:
                await producer.send_offsets_to_transaction(offsets, options.group)
        cell[0] += sent
    await producer.stop()


class Tasks:
    """One task reads; each worker is a task that waits for its deque."""

    def __init__(self, options: Options, report: Report, consumer: AIOKafkaConsumer) -> None:
        self._options, self._report, self._consumer = options, report, consumer
        self._queues: list[deque[Any]] = [deque() for _ in range(options.workers)]
        self._gates: list[asyncio.Future[None] | None] = [None for _ in range(options.workers)]
        self._done = _done_cell(options, report)

    async def run(self) -> None:
        """Read until the side is to end."""
        tasks = [asyncio.create_task(self._work(number)) for number in range(self._options.workers)]
        self._report.ready()
        seen, gates, queues, number = 0, self._gates, self._queues, self._options.workers
        while not self._report.stopping.is_set():
            if seen - self._done[0] >= WAITING_RECORDS_MAX:
                await asyncio.sleep(FULL_S)
                continue
            for message in _each(await self._consumer.getmany(timeout_ms=POLL_MS, max_records=1_000)):
                place = hash(message.key) % number
                queues[place].append(message)
                seen += 1
                gate = gates[place]
                if gate is not None:
                    gates[place] = None
                    gate.set_result(None)
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    async def _work(self, number: int) -> None:
        queue, gates, done = self._queues[number], self._gates, self._done
        handle, make_gate = _sleeping(self._options, self._report), asyncio.get_running_loop().create_future
        while True:
            while queue:
                await handle(queue.popleft())
                done[0] += 1
            gates[number] = gate = make_gate()
            await gate


def _each(found: dict[Any, list[Any]]) -> Iterable[Any]:
    return (message for messages in found.values() for message in messages)


def _handler(options: Options, report: Report) -> Callable[[list[Any]], None]:
    """Return what is done with the messages of a partition."""
    work, decode = options.decode or options.work, msgspec.json.Decoder(Reading).decode
    calls: dict[str, Callable[[bytes], Any]] = {"json": orjson.loads, "typed": decode, "latency": report.age}
    call = calls.get(work)

    def handle(messages: list[Any]) -> None:
        if call is not None:
            for message in messages:
                call(message.value)

    return handle


def _done_cell(options: Options, report: Report) -> list[int]:
    """Return the count of what has left the deques; it is reported where all of it counts."""
    return [0] if options.work in COUNTED_BY_HANDLER else report.cell()


def _sleeping(options: Options, report: Report) -> Callable[[Any], Awaitable[None]]:
    sleep, draw_s, hot_s = asyncio.sleep, options.sleep_s(), options.hot_ms / 1e3

    async def sleep_for(_message: Any) -> None:
        await sleep(draw_s())

    async def sleep_by_key(message: Any) -> None:
        if message.key == HOT_KEY:
            await sleep(hot_s)
        else:
            report.age(message.value)
            await sleep(draw_s())
            handled[0] += 1

    async def fail_once(message: Any) -> None:
        await sleep(draw_s())
        if message.value.startswith(POISON):
            failed[0] += 1
            await sleep(options.retry_s)
            await sleep(draw_s())
        else:
            handled[0] += 1

    if options.work in COUNTED_BY_HANDLER:
        handled = report.cell()
    if options.work == "poison":
        failed = report.cell(failed=True)
    return {"sleep": sleep_for, "hot": sleep_by_key, "poison": fail_once}[options.work]


if __name__ == "__main__":
    main()
