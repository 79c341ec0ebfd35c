"""W17: a handler that takes a decoded payload, and one that sends an output for each record.

Compared with bare loops with the same decoder, the same client settings, and the same producer settings.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from _bench_bare import BATCH_RECORDS, bare_consumer
from _bench_engine import make_app, stop_now, time_until
from _bench_marks import BEGIN, END, mark
from confluent_kafka import Producer, TopicPartition

import ehkafka
from ehkafka.outputs.properties import output_properties, transactional_properties
from ehkafka.run.observation import totals_of
from ehkafka.settings import Settings
from ehkafka.transactions.committing import metadata_of_no_member

if TYPE_CHECKING:
    from collections.abc import Callable

# Of librdkafka, for every side: what it gathers before it sends.
TRANSACTION_S = 0.1
SENDING = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}


class Reading(msgspec.Struct):
    """What the values hold."""

    home: str
    n: int
    pad: str


def to_dict(reading: dict[str, Any]) -> None:
    """Handle a decoded value."""


def to_struct(reading: Reading) -> None:
    """Handle a decoded value."""


_HANDLERS: dict[str, Callable[[Any], None]] = {"orjson": to_dict, "msgspec": to_struct}


def engine_typed(bootstrap: str, topic: str, records: int, *, decoder: str) -> dict[str, Any]:
    """The engine with a handler whose annotation chooses the decoder."""
    app = make_app(bootstrap, topic, _HANDLERS[decoder])
    app.start()
    took_s = time_until(app, records)
    stop_now(app)
    return {"records": records, "records_per_s": records / took_s}


def bare_typed(bootstrap: str, topic: str, records: int, *, decoder: str) -> dict[str, Any]:
    """One loop that decodes each value and calls the same handler with it.

    It reads key and offset, as code that keeps order and commits does.
    """
    decode: Callable[[Any], Any] = {
        "orjson": orjson.loads,
        "msgspec": msgspec.json.Decoder(Reading).decode,
    }[decoder]
    handle = _HANDLERS[decoder]
    consumer = bare_consumer(bootstrap, topic)
    seen, started_s = 0, 0.0
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if not started_s and batch:
            mark(BEGIN)
            started_s = time.perf_counter()
        for message in batch:
            message.key()
            message.offset()
            handle(decode(message.value()))
        seen += len(batch)
    took_s = time.perf_counter() - started_s
    mark(END)
    consumer.close()
    return {"records": seen, "records_per_s": seen / took_s}


def engine_sending(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    to: str,
    exactly_once: bool = False,
) -> dict[str, Any]:
    """The engine with one output for each record: its key and its value."""

    def send_on(record: ehkafka.Record) -> bytes | None:
        return record.value()

    sending = {"to": to, "producer": SENDING, "exactly_once": exactly_once}
    app = make_app(bootstrap, topic, send_on, **sending)
    app.start()
    took_s = time_until(app, records, done=lambda: _safe(app))
    stop_now(app)
    return {"records": records, "records_per_s": records / took_s}


def _safe(app: ehkafka.App) -> int:
    """Return how many records are finished and have their outputs acknowledged, or fewer."""
    runtime: Any = app.current_run  # cheaper than a snapshot, which would be measured too
    # In this order: an output that is acknowledged in between makes it too few, never too many.
    finished: int = totals_of(runtime)["finished_records"]
    return finished - int(runtime.context.delivery.outputs.count())


def bare_sending(bootstrap: str, topic: str, records: int, *, to: str) -> dict[str, Any]:
    """One loop that produces what it has consumed, by our outputs' producer settings, and counts answers."""
    consumer = bare_consumer(bootstrap, topic)
    settings = Settings(group="bare", start="earliest", producer=SENDING)
    producer = Producer(output_properties(ehkafka.Endpoint.kafka(bootstrap), settings))
    acknowledged = 0

    def on_delivery(error: Any, _message: Any) -> None:
        nonlocal acknowledged
        assert error is None, error
        acknowledged += 1

    seen, started_s = 0, 0.0
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if not started_s and batch:
            mark(BEGIN)
            started_s = time.perf_counter()
        for message in batch:
            while True:
                try:
                    producer.produce(to, message.value(), message.key(), on_delivery=on_delivery)
                except BufferError:
                    producer.poll(0.01)
                else:
                    break
        producer.poll(0)
        seen += len(batch)
    while acknowledged < records:
        producer.poll(0.01)
    took_s = time.perf_counter() - started_s
    mark(END)
    consumer.close()
    producer.flush(10.0)
    return {"records": records, "records_per_s": records / took_s}


def bare_transactions(bootstrap: str, topic: str, records: int, *, to: str) -> dict[str, Any]:
    """The same loop with a transaction each 0.1 s, in which the offsets of what it has produced are."""
    consumer = bare_consumer(bootstrap, topic)
    settings = Settings(group="bare", start="earliest", producer=SENDING)
    endpoint = ehkafka.Endpoint.kafka(bootstrap)
    producer = Producer(transactional_properties(endpoint, settings, "bare"))
    producer.init_transactions(10.0)
    metadata = metadata_of_no_member("bare")
    seen, started_s, began_s = 0, 0.0, 0.0
    offsets: dict[int, int] = {}
    producer.begin_transaction()
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if not started_s and batch:
            mark(BEGIN)
            started_s = began_s = time.perf_counter()
        for message in batch:
            while True:
                try:
                    producer.produce(to, message.value(), message.key())
                except BufferError:
                    producer.poll(0.01)
                else:
                    break
            offsets[message.partition()] = message.offset() + 1
        producer.poll(0)
        seen += len(batch)
        if time.perf_counter() - began_s >= TRANSACTION_S or seen >= records:
            places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
            producer.send_offsets_to_transaction(places, metadata, 10.0)
            producer.commit_transaction(10.0)
            producer.begin_transaction()
            began_s = time.perf_counter()
    took_s = time.perf_counter() - started_s
    mark(END)
    producer.abort_transaction(10.0)
    consumer.close()
    return {"records": records, "records_per_s": records / took_s}
