"""FastStream 0.7.8 with confluent-kafka, on uvloop.

Modes: `batches`, a batch subscriber, and `single`, one record after another: both keep the order of a
partition and commit after the handler (https://faststream.ag2.ai/latest/confluent/ack/). `workers`:
`max_workers` handlers at a time, which keeps no order of a key and allows only `ACK_FIRST`, the client's
background commits.

Settings, all from https://faststream.ag2.ai/latest/confluent/additional-configuration/ (properties of
librdkafka by `config`) and https://faststream.ag2.ai/latest/api/faststream/confluent/KafkaBroker/:

- `fetch.queue.backoff.ms` 5: as every side that has librdkafka.
- `max_records` as large as the work's batches, or 1 000; `polling_interval` 5 ms where latency counts, since
  a batch waits for so many records or for so long.
- `decoder`: the values unchanged, since the default one parses JSON in any case; typed values come from
  `MsgSpecSerializer`.
- outputs: `publish_batch` (https://faststream.ag2.ai/latest/confluent/Publisher/batch_publisher/), with the
  same producer properties as every side; it waits for the acknowledgement of the whole batch. `single` sends
  with `linger.ms` 0, since it waits for each.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import uvloop
from fast_depends.msgspec import MsgSpecSerializer
from faststream import AckPolicy
from faststream.confluent import KafkaBroker, KafkaMessage, KafkaResponse
from protocol import HOT_KEY, POISON, Options, Report
from reading import Reading  # noqa: TC002 - what a handler gets is read from its annotations

if TYPE_CHECKING:
    from collections.abc import Callable

PROPERTIES = {"fetch.queue.backoff.ms": 5}
SENDING = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}
BATCH_RECORDS = 1_000
POLLING_S, QUICK_POLLING_S = 0.1, 0.005


def main() -> None:
    """Do the work that the options name until the side is to end."""
    options, report = Options.from_arguments(), Report()
    uvloop.run(run(options, report))


async def run(options: Options, report: Report) -> None:
    """Register the handler of this mode and consume."""
    # One record after another waits for its acknowledgement: nothing to gather.
    sending = {} if not options.output_topic else SENDING if options.mode == "batches" else {"linger.ms": 0}
    broker = KafkaBroker(
        options.bootstrap, config=PROPERTIES | sending, serializer=MsgSpecSerializer(), logger=None
    )
    {"batches": take_batches, "single": take_each, "workers": take_at_once}[options.mode](
        broker, options, report
    )
    await broker.start()
    report.ready()
    await asyncio.to_thread(report.wait)
    await broker.stop()


def take_batches(broker: KafkaBroker, options: Options, report: Report) -> None:
    """Subscribe with batches."""
    cell, work = report.cell(), options.decode or options.work
    subscriber = broker.subscriber(
        options.topic,
        batch=True,
        max_records=options.batch_records if options.work == "batch" else BATCH_RECORDS,
        group_id=options.group,
        auto_offset_reset="earliest",
        polling_interval=QUICK_POLLING_S if options.work == "latency" else POLLING_S,
        ack_policy=AckPolicy.ACK,
        **({} if work == "typed" else {"decoder": _values}),
    )

    async def handle(batch: list[bytes]) -> None:
        if work == "json":
            for value in batch:
                orjson.loads(value)
        elif work == "latency":
            for value in batch:
                report.age(value)
        cell[0] += len(batch)

    async def take_typed(batch: list[Reading]) -> None:
        cell[0] += len(batch)

    async def send_on(batch: list[bytes], message: KafkaMessage) -> None:
        keys = [one.key() for one in message.raw_message]
        outputs = [KafkaResponse(value, key=key) for value, key in zip(batch, keys, strict=True)]
        await broker.publish_batch(*outputs, topic=options.output_topic)
        cell[0] += len(batch)

    subscriber({"typed": take_typed, "output": send_on}.get(work, handle))


def take_each(broker: KafkaBroker, options: Options, report: Report) -> None:
    """Subscribe with one record after another."""
    cell = report.cell()
    subscriber = broker.subscriber(
        options.topic,
        group_id=options.group,
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.ACK,
        **({} if options.work == "typed" else {"decoder": _value}),
    )

    async def handle(value: bytes) -> None:
        if options.work == "json":
            orjson.loads(value)
        elif options.work == "latency":
            report.age(value)
        cell[0] += 1

    async def take_typed(_reading: Reading) -> None:
        cell[0] += 1

    async def send_on(value: bytes, message: KafkaMessage) -> None:
        await broker.publish(value, options.output_topic, key=message.raw_message.key())
        cell[0] += 1

    subscriber({"typed": take_typed, "output": send_on}.get(options.work, handle))


def take_at_once(broker: KafkaBroker, options: Options, report: Report) -> None:
    """Subscribe with so many handlers at a time."""
    subscriber = broker.subscriber(
        options.topic,
        group_id=options.group,
        auto_offset_reset="earliest",
        max_workers=options.workers,
        decoder=_value,
    )
    subscriber(_sleeping(options, report))


def _sleeping(options: Options, report: Report) -> Callable[..., Any]:
    sleep, draw_s, hot_s, cell = asyncio.sleep, options.sleep_s(), options.hot_ms / 1e3, report.cell()

    async def sleep_for(_value: bytes) -> None:
        await sleep(draw_s())
        cell[0] += 1

    async def sleep_by_key(value: bytes, message: KafkaMessage) -> None:
        if message.raw_message.key() == HOT_KEY:
            await sleep(hot_s)
            return
        report.age(value)
        await sleep(draw_s())
        cell[0] += 1

    async def fail_once(value: bytes) -> None:
        await sleep(draw_s())
        if value.startswith(POISON):
            failed[0] += 1
            await sleep(options.retry_s)
            await sleep(draw_s())
        else:
            cell[0] += 1

    if options.work == "poison":
        failed = report.cell(failed=True)
    return {"sleep": sleep_for, "hot": sleep_by_key, "poison": fail_once}[options.work]


async def _value(message: KafkaMessage) -> Any:
    return message.body


async def _values(message: KafkaMessage) -> Any:
    return [one.value() for one in message.raw_message]


if __name__ == "__main__":
    main()
