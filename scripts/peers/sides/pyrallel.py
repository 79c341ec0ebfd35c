"""pyrallel-consumer 1.0.0: its asyncio engine in the order of keys, as many tasks at once as workers.

At least once: the library commits what is finished without a gap. A failed record is tried again by its own
task, which waits for the retry and holds one of the `max_in_flight` places meanwhile, and its key.

Settings, from https://github.com/tomorrow9913/Pyrallel-Consumer/blob/main/README.md and its
docs/operations/playbooks.md (https://github.com/tomorrow9913/Pyrallel-Consumer/blob/main/docs/operations/playbooks.md):

- `ordering_mode` "key_hash", its default: README.md, "Ordering modes".
- `ExecutionMode.ASYNC`, recommended for work that waits; that for work that computes (processes) is left
  out, for no work here computes for long: playbooks.md, "Workload Guidance".
- `max_in_flight`: the workers, or 2,000 where the handler waits for nothing: playbooks.md, "Quick Profiles".
- `poll_batch_size` 200 where the handler waits for nothing ("Low Latency": 200 to 500), 20,000 where it
  sleeps, with a queue four times as large.
- `strict_completion_monitor_enabled`, its default, "the primary release signal".
- retries: `max_retries`, `retry_backoff_ms`, no exponential backoff and no jitter, `dlq_enabled=False`:
  README.md, "Retry & DLQ".
- `fetch.queue.backoff.ms` 5 as every side that has librdkafka: its configuration has no place for it, so
  `get_consumer_config` is extended.
- logging off; no uvloop, which its documentation does not name.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from order_check import OrderCheck
from protocol import HOT_KEY, POISON, Options, Report
from pyrallel_consumer.config import KafkaConfig
from pyrallel_consumer.consumer import PyrallelConsumer
from pyrallel_consumer.dto import ExecutionMode, OrderingMode, WorkItem
from reading import Reading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Its profile of high throughput asks for 2,000 and more; the works with workers say how many.
IN_FLIGHT_MAX = 2_000
SLEEPING = ("sleep", "hot", "poison")
# It hands out what one poll gave before it polls again.
POLL_BATCH, POLL_BATCH_SLEEPING = 200, 20_000
QUEUED_PER_POLL = 4
TRIES = 5
TASK_TIMEOUT_MS = 30_000


class QuickFetching(KafkaConfig):
    """Its configuration, with the one client property that every side here has."""

    def get_consumer_config(self) -> dict[str, str | int | bool]:
        """Return the client's properties."""
        return {**super().get_consumer_config(), "fetch.queue.backoff.ms": 5}


class PoisonError(Exception):
    """The failure of the poison work."""


async def main() -> None:
    """Run until it is asked to end."""
    options, report, order = Options.from_arguments(), Report(), OrderCheck()
    # Else it logs each failed record with its traceback.
    logging.disable(logging.CRITICAL)
    handle = handler(options, report)
    if order.asked:
        handle = checked(handle, order)
    consumer = PyrallelConsumer(config=configuration(options), worker=handle, topic=options.topic)
    await consumer.start()
    report.ready()
    await asyncio.to_thread(report.wait)
    await consumer.stop()
    order.say()


def configuration(options: Options) -> KafkaConfig:
    """Return its settings for this work."""
    config = QuickFetching(
        BOOTSTRAP_SERVERS=options.bootstrap, CONSUMER_GROUP=options.group, dlq_enabled=False
    )
    parallel = config.parallel_consumer
    parallel.ordering_mode = OrderingMode.KEY_HASH
    many = options.work in SLEEPING
    parallel.poll_batch_size = POLL_BATCH_SLEEPING if many else POLL_BATCH
    parallel.queue_max_messages = max(parallel.queue_max_messages, QUEUED_PER_POLL * parallel.poll_batch_size)
    execution = parallel.execution
    execution.mode = ExecutionMode.ASYNC
    execution.max_in_flight = options.workers if options.work in SLEEPING else IN_FLIGHT_MAX
    execution.async_config.task_timeout_ms = TASK_TIMEOUT_MS
    if options.work == "poison":
        execution.max_retries = TRIES
        execution.retry_backoff_ms = int(options.retry_s * 1_000)
        execution.exponential_backoff = False
        execution.retry_jitter_ms = 0
    return config


def handler(options: Options, report: Report) -> Callable[[WorkItem], Awaitable[None]]:
    """Return the worker function."""
    handled, sleep_s = report.cell(), options.sleep_s()
    decode = msgspec.json.Decoder(Reading).decode

    async def nothing(_item: WorkItem) -> None:
        handled[0] += 1

    async def parse(item: WorkItem) -> None:
        orjson.loads(item.payload)
        handled[0] += 1

    async def typed(item: WorkItem) -> None:
        decode(item.payload)
        handled[0] += 1

    async def sleep(_item: WorkItem) -> None:
        await asyncio.sleep(sleep_s())
        handled[0] += 1

    async def age(item: WorkItem) -> None:
        report.age(item.payload)
        handled[0] += 1

    works: dict[str, Any] = {"json": parse, "typed": typed, "sleep": sleep, "latency": age}
    if options.work == "hot":
        return hot(options, report, handled)
    if options.work == "poison":
        return poison(options, report, handled)
    return works.get(options.work, nothing)


def hot(options: Options, report: Report, handled: list[int]) -> Callable[[WorkItem], Awaitable[None]]:
    """Return the worker function of the work with a hot key."""
    sleep_s, hot_s = options.sleep_s(), options.hot_ms / 1e3

    async def handle(item: WorkItem) -> None:
        if item.key == HOT_KEY:
            await asyncio.sleep(hot_s)
            return
        report.age(item.payload)
        await asyncio.sleep(sleep_s())
        handled[0] += 1

    return handle


def poison(options: Options, report: Report, handled: list[int]) -> Callable[[WorkItem], Awaitable[None]]:
    """Return the worker function that fails at the first attempt of each poisoned record."""
    failed, sleep_s = report.cell(failed=True), options.sleep_s()
    once: set[str] = set()

    async def handle(item: WorkItem) -> None:
        await asyncio.sleep(sleep_s())
        if not item.payload.startswith(POISON):
            handled[0] += 1
        elif item.id not in once:
            once.add(item.id)
            failed[0] += 1
            raise PoisonError
        else:
            once.remove(item.id)

    return handle


def checked(
    handle: Callable[[WorkItem], Awaitable[None]], order: OrderCheck
) -> Callable[[WorkItem], Awaitable[None]]:
    """Return the same function with the check of order around it."""

    async def handle_checked(item: WorkItem) -> None:
        order.begin(item.tp.partition, item.key, item.offset)
        await handle(item)
        order.end(item.tp.partition, item.key)

    return handle_checked


if __name__ == "__main__":
    asyncio.run(main())
