"""The limit: one thread that consumes and handles, with confluent-kafka 2.16.1 alone.

Mode: one loop; order per partition. The client commits in the background what it has handed out; exactly once
the transaction does. Settings, from the client's documentation
(https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md):

- `fetch.queue.backoff.ms` 5: with its default of 1000 a loop waits for most of a second whenever the client's
  queue was full.
- `consume(1000, 0)`, then `consume(1, 0.05)` if there is nothing: with a time-out the first would wait for
  all 1000.
- `linger.ms` 5 and batches of 10 000 records: what every side that sends has.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import msgspec
import orjson
from protocol import Options, Report
from reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_RECORDS = 1_000
IDLE_S = 0.05
SENDING = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}
# How much goes into a transaction.
TRANSACTION_S = 0.1
ANSWER_S = 30.0


def main() -> None:
    """Do the work that the options name until the side is to end."""
    options, report = Options.from_arguments(), Report()
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
            "enable.auto.commit": options.work != "exactly_once",
        }
    )
    consumer.subscribe([options.topic])
    {
        "output": send,
        "exactly_once": send_exactly_once,
        "batch": handle_batches,
    }.get(options.work, handle_each)(options, report, consumer)
    consumer.close()


def handle_each(options: Options, report: Report, consumer: confluent_kafka.Consumer) -> None:
    """Read key and offset of each record, as any consumer with order and commits does, and handle it."""
    handle, cell = _handler(options, report), report.cell()
    report.ready()
    while not report.stopping.is_set():
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, IDLE_S)
        for message in batch:
            message.key()
            message.offset()
            if handle is not None:
                handle(message)
        cell[0] += len(batch)


def handle_batches(options: Options, report: Report, consumer: confluent_kafka.Consumer) -> None:
    """Hand over what there is, up to a whole batch."""
    cell, parses = report.cell(), options.decode == "json"
    report.ready()
    while not report.stopping.is_set():
        batch = consumer.consume(options.batch_records, 0) or consumer.consume(1, IDLE_S)
        if parses:
            for message in batch:
                orjson.loads(message.value())
        cell[0] += len(batch)


def send(options: Options, report: Report, consumer: confluent_kafka.Consumer) -> None:
    """Send on what was consumed; it counts when the broker has answered."""
    producer = confluent_kafka.Producer({"bootstrap.servers": options.bootstrap, **SENDING})
    cell = report.cell()

    def on_delivery(error: Any, _message: Any) -> None:
        assert error is None, error
        cell[0] += 1

    report.ready()
    while not report.stopping.is_set():
        for message in consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, IDLE_S):
            _produce(producer, options.output_topic, message, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(ANSWER_S)


def send_exactly_once(options: Options, report: Report, consumer: confluent_kafka.Consumer) -> None:
    """Send on, in a transaction each 0.1 s that contains the offsets; it counts when that is committed."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": options.bootstrap, "transactional.id": options.group, **SENDING}
    )
    producer.init_transactions(ANSWER_S)
    cell = report.cell()
    report.ready()
    while not report.stopping.is_set():
        producer.begin_transaction()
        began_s, sent = time.monotonic(), 0
        offsets: dict[int, int] = {}
        while time.monotonic() < began_s + TRANSACTION_S:
            for message in consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, IDLE_S):
                _produce(producer, options.output_topic, message)
                offsets[message.partition()] = message.offset() + 1
                sent += 1
            producer.poll(0)
        places = [confluent_kafka.TopicPartition(options.topic, *one) for one in offsets.items()]
        if places:
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(places, metadata, ANSWER_S)
        producer.commit_transaction(ANSWER_S)
        cell[0] += sent


def _produce(producer: confluent_kafka.Producer, topic: str, message: Any, **more: Any) -> None:
    while True:
        try:
            producer.produce(topic, message.value(), message.key(), **more)
        except BufferError:
            producer.poll(0.01)
        else:
            return


def _handler(options: Options, report: Report) -> Callable[[Any], Any] | None:
    if options.work == "noop":
        return None
    if options.work == "latency":
        return lambda message: report.age(message.value())
    decode = orjson.loads if options.work == "json" else msgspec.json.Decoder(Reading).decode
    return lambda message: decode(message.value())


if __name__ == "__main__":
    main()
