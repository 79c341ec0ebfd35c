"""Quix Streams 3.28.1: one record after another in each process, in the order of the partition.

At least once: it commits what was processed each 5 s, and each 0.1 s in a transaction. `on_message_processed`
is not needed: the handler counts, so an output counts once it is handed to the producer, whose queue is
bounded, and with exactly once at most 0.1 s before its commit. The kind "processes" runs as many of it as the
topic has partitions.

Settings, from https://quix.io/docs/quix-streams/:

- `fetch.queue.backoff.ms` 5 instead of its own 100, by `consumer_extra_config`, and the producer's properties
  that every side has, by `producer_extra_config`: configuration.html.
- `key_deserializer` and `value_deserializer` "bytes", for JSON is its default; typed values by
  `JSONDeserializer(loads=…)` with msgspec's decoder: advanced/serialization.html.
- `commit_interval` 5 s, its default, and 0.1 s for `processing_guarantee="exactly-once"`, as the other sides
  with transactions: advanced/checkpointing.html and configuration.html#processing-guarantees.
- batches: `BatchingSink`, whose batches are a checkpoint's records of one partition, in chunks of so many
  (`iter_chunks`), `commit_every` 10,000: connectors/sinks/custom-sinks.html, connectors/sinks/index.html.
- `loglevel=None`: configuration.html#logging.
- more processes of one group: introduction.html ("run and scale via container orchestration").
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from fleet import run_fleet
from order_check import OrderCheck
from protocol import Options, Report
from quixstreams import Application, message_context
from quixstreams.models import JSONDeserializer
from quixstreams.sinks.base import BatchingSink, SinkBatch
from reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT_S = 5.0
TRANSACTION_S = 0.1
BATCHES_COMMIT_EVERY = 10_000
SENDING = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}
PLAIN = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
SENT = {"key_serializer": "bytes", "value_serializer": "bytes"}


class BatchSink(BatchingSink):
    """Hands each checkpoint's records of a partition to the handler in batches of so many."""

    def __init__(self, records: int, handle: Callable[[Any], None]) -> None:
        super().__init__(on_client_connect_success=lambda: None)
        self._records = records
        self._handle = handle

    def write(self, batch: SinkBatch) -> None:
        """Take the records since the last checkpoint."""
        for chunk in batch.iter_chunks(self._records):
            self._handle(chunk)


def main() -> None:
    """Run until it is asked to end."""
    options, report, order = Options.from_arguments(), Report(), OrderCheck()
    if options.kind == "processes":
        run_fleet(options, report)
        return
    app = application(options)
    build(app, options, report, order)
    threading.Thread(target=lambda: (report.wait(), app.stop()), daemon=True).start()
    report.ready()
    app.run()
    order.say()


def application(options: Options) -> Application:
    """Return the application with the settings for this work."""
    exactly_once = options.work == "exactly_once"
    return Application(
        broker_address=options.bootstrap,
        consumer_group=options.group,
        auto_offset_reset="earliest",
        auto_create_topics=False,
        loglevel=None,
        consumer_extra_config={"fetch.queue.backoff.ms": 5},
        producer_extra_config=SENDING,
        commit_interval=TRANSACTION_S if exactly_once else COMMIT_S,
        commit_every=BATCHES_COMMIT_EVERY if options.work == "batch" else 0,
        processing_guarantee="exactly-once" if exactly_once else "at-least-once",
    )


def build(app: Application, options: Options, report: Report, order: OrderCheck) -> None:
    """Declare what happens to each record of the topic."""
    formats: dict[str, Any] = dict(PLAIN)
    if options.work == "typed":
        formats["value_deserializer"] = JSONDeserializer(loads=msgspec.json.Decoder(Reading).decode)
    frame = app.dataframe(app.topic(options.topic, **formats))
    handled = report.cell()
    if order.asked:
        frame.update(lambda _value, key, _timestamp, _headers: note(order, key), metadata=True)
    if options.work == "batch":
        frame.sink(BatchSink(options.batch_records, batch_handler(options, handled)))
    else:
        frame = frame.update(handler(options, report, handled))
    if options.work in ("output", "exactly_once"):
        frame.to_topic(app.topic(options.output_topic, **PLAIN, **SENT))


def handler(options: Options, report: Report, handled: list[int]) -> Callable[[Any], None]:
    """Return the function that each record's value goes through."""
    sleep_s = options.sleep_s()

    def nothing(_value: Any) -> None:
        handled[0] += 1

    def parse(value: bytes) -> None:
        orjson.loads(value)
        handled[0] += 1

    def age(value: bytes) -> None:
        report.age(value)
        handled[0] += 1

    def sleep(_value: bytes) -> None:
        time.sleep(sleep_s())
        handled[0] += 1

    return {"json": parse, "latency": age, "sleep": sleep}.get(options.work, nothing)


def batch_handler(options: Options, handled: list[int]) -> Callable[[Any], None]:
    """Return the function that each batch goes through."""

    def handle(items: Any) -> None:
        if options.decode == "json":
            for item in items:
                orjson.loads(item.value)
        handled[0] += len(items)

    return handle


def note(order: OrderCheck, key: Any) -> None:
    """Tell the check of one record: it is handled before the next one is looked at."""
    context = message_context()
    order.begin(context.partition, key, context.offset)
    order.end(context.partition, key)


if __name__ == "__main__":
    main()
