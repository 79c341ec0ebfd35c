"""Sentry's arroyo 2.48.0: `RunTask` in the order of the partition, or `RunTaskInThreads` without any.

`RunTask` handles one record after another. The mode "threads" is `RunTaskInThreads`: records of one key run
at the same time, and only the commits behind it are in order again. At least once. An output counts in a step
behind `Produce`, so once the broker has acknowledged it. `RunTaskWithMultiprocessing` is left out: it is for
work that computes for long, and of these works none costs as much as its way to another process and back.

Settings, from https://getsentry.github.io/arroyo/:

- `CommitOffsets` as the last step and `ONCE_PER_SECOND`, "a reasonable option": offsets.html.
- `fetch.queue.backoff.ms` 5 as every side that has librdkafka, by `override_params`, and librdkafka's own
  read-ahead instead of a smaller one that saves memory (`queued_min_messages`, `queued_max_messages_kbytes`):
  https://github.com/getsentry/arroyo/blob/2.48.0/arroyo/backends/kafka/configuration.py.
- `RunTaskInThreads(concurrency=workers)`, ten times as many pending futures:
  strategies/run_task_in_threads.html.
- batches: `BatchStep(max_batch_size=500, max_batch_time=0.1)`: strategies/batching.html.
- outputs: `Produce`, its buffer as large as librdkafka's queue: strategies/produce.html; a `KafkaProducer`
  with `use_simple_futures=True` and the producer properties that every side has:
  https://github.com/getsentry/arroyo/blob/2.48.0/arroyo/backends/kafka/consumer.py.
- no metrics backend, and logging at WARNING, both its defaults: metrics.html.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from arroyo.backends.kafka import KafkaConsumer, KafkaPayload, KafkaProducer
from arroyo.backends.kafka.configuration import (
    build_kafka_configuration,
    build_kafka_consumer_configuration,
)
from arroyo.commit import ONCE_PER_SECOND
from arroyo.processing import StreamProcessor
from arroyo.processing.strategies import BatchStep, CommitOffsets, Produce, RunTask, RunTaskInThreads
from arroyo.processing.strategies.abstract import ProcessingStrategy, ProcessingStrategyFactory
from arroyo.types import Commit, Message, Partition, Topic
from order_check import OrderCheck
from protocol import Options, Report
from reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

QUEUED_MESSAGES = 100_000
QUEUED_KBYTES = 65_536
BATCH_S = 0.1
BUFFERED_OUTPUTS = 100_000
PENDING_PER_WORKER = 10
SENDING = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}


class Strategies(ProcessingStrategyFactory[KafkaPayload]):
    """Makes the chain of steps at each assignment, as arroyo wants it."""

    def __init__(self, build: Callable[[CommitOffsets], ProcessingStrategy[KafkaPayload]]) -> None:
        self._build = build

    def create_with_partitions(
        self,
        commit: Commit,
        partitions: Mapping[Partition, int],  # noqa: ARG002 - its signature
    ) -> ProcessingStrategy[KafkaPayload]:
        """Return the first step."""
        return self._build(CommitOffsets(commit))


def main() -> None:
    """Run until it is asked to end."""
    options, report, order = Options.from_arguments(), Report(), OrderCheck()
    build = threads(options, report, order) if options.mode == "threads" else steps(options, report, order)
    run(options, report, build)
    order.say()


def run(
    options: Options, report: Report, build: Callable[[CommitOffsets], ProcessingStrategy[KafkaPayload]]
) -> None:
    """Consume until the side is to end."""
    consumer = KafkaConsumer(
        build_kafka_consumer_configuration(
            {},
            group_id=options.group,
            auto_offset_reset="earliest",
            bootstrap_servers=[options.bootstrap],
            queued_min_messages=QUEUED_MESSAGES,
            queued_max_messages_kbytes=QUEUED_KBYTES,
            override_params={"fetch.queue.backoff.ms": 5},
        )
    )
    processor = StreamProcessor(consumer, Topic(options.topic), Strategies(build), ONCE_PER_SECOND)
    threading.Thread(target=lambda: (report.wait(), processor.signal_shutdown()), daemon=True).start()
    report.ready()
    processor.run()


def steps(
    options: Options, report: Report, order: OrderCheck
) -> Callable[[CommitOffsets], ProcessingStrategy[KafkaPayload]]:
    """Return what makes the chain of steps for this work."""
    handled = report.cell()
    if options.work == "batch":
        return lambda commit: BatchStep(
            options.batch_records, BATCH_S, RunTask(batch_handler(options, handled), commit)
        )
    if options.work == "output":
        configuration = build_kafka_configuration(
            {}, bootstrap_servers=[options.bootstrap], override_params=SENDING
        )
        producer = KafkaProducer(configuration, use_simple_futures=True)
        out = Topic(options.output_topic)
        count = handler(options, report, handled)
        return lambda commit: Produce(producer, out, RunTask(count, commit), BUFFERED_OUTPUTS)
    handle = handler(options, report, handled)
    return lambda commit: RunTask(checked(handle, order) if order.asked else handle, commit)


def threads(
    options: Options, report: Report, order: OrderCheck
) -> Callable[[CommitOffsets], ProcessingStrategy[KafkaPayload]]:
    """Return what makes the chain of steps that handles records in threads."""
    count, sleep_s = report.ticker(), options.sleep_s()

    def sleep(_message: Message[Any]) -> None:
        time.sleep(sleep_s())
        count()

    handle = checked(sleep, order) if order.asked else sleep
    pending = PENDING_PER_WORKER * options.workers
    return lambda commit: RunTaskInThreads(handle, options.workers, pending, commit)


def handler(options: Options, report: Report, handled: list[int]) -> Callable[[Message[Any]], Any]:
    """Return the function that each record goes through."""
    decode = msgspec.json.Decoder(Reading).decode

    def nothing(_message: Message[Any]) -> None:
        handled[0] += 1

    def parse(message: Message[KafkaPayload]) -> None:
        orjson.loads(message.payload.value)
        handled[0] += 1

    def typed(message: Message[KafkaPayload]) -> None:
        decode(message.payload.value)
        handled[0] += 1

    def age(message: Message[KafkaPayload]) -> None:
        report.age(message.payload.value)
        handled[0] += 1

    works = {"json": parse, "typed": typed, "latency": age}
    return works.get(options.work, nothing)


def batch_handler(options: Options, handled: list[int]) -> Callable[[Message[Any]], Any]:
    """Return the function that each batch goes through."""

    def handle(message: Message[Any]) -> None:
        batch = message.payload
        if options.decode == "json":
            for one in batch:
                orjson.loads(one.payload.value)
        handled[0] += len(batch)

    return handle


def checked(handle: Callable[[Message[Any]], Any], order: OrderCheck) -> Callable[[Message[Any]], Any]:
    """Return the same function with the check of order around it."""

    def handle_checked(message: Message[KafkaPayload]) -> None:
        value: Any = message.value
        lane = value.partition.index, message.payload.key
        order.begin(*lane, value.offset)
        handle(message)
        order.end(*lane)

    return handle_checked


if __name__ == "__main__":
    main()
