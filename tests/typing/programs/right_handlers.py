"""Handlers and hooks of every kind, as users write them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, assert_type

import confluent_kafka

import ehkafka
from ehkafka.middleware import log_attempts

app = ehkafka.App(group="doors", start="earliest")


@app.handler("readings")
def handle(record: ehkafka.Record) -> None:
    print(record.key(), record.json()["door"])


@app.handler("readings", "alarms", workers=32, order_by=lambda record: record.json()["home"])
async def handle_async(record: ehkafka.Record) -> None:
    print(record.where)


@app.handler(workers=ehkafka.Processes(2), retry=ehkafka.Retry(attempts=3), on_failure=ehkafka.Hold())
def handle_own_topic(record: ehkafka.Record, more: int = 0) -> int:
    return more


@app.handler("by-class", scope="handler", null_key="partition", headers="amqp", start="latest")
class Doors:
    def __init__(self, first: int = 0) -> None:
        self.count = first

    def open(self, partition: ehkafka.TopicPartition) -> None:
        print(partition.topic, partition.partition)

    def process(self, record: ehkafka.Record) -> None:
        self.count += len(record)


@app.handler("by-async-class")
class Windows:
    async def process(self, record: ehkafka.Record) -> None:
        print(record.offset())


@app.handler("raw", raw=True, workers=1, order_by=lambda message: message.key())
def handle_message(message: confluent_kafka.Message) -> None:
    message.set_value(b"")


@app.handler("raw", raw=True)
class Messages:
    def process(self, message: confluent_kafka.Message) -> None:
        print(message.value())


@app.batch_handler("readings", batch_records_max=100, wait_s_max=0.5)
def store(batch: ehkafka.Batch) -> None:
    for record in batch:
        batch.fail(record, ValueError(record.where))


@app.batch_handler("readings")
async def store_async(records: Sequence[ehkafka.Record]) -> None:
    print(len(records), records[0].topic())


@app.batch_handler("readings", on_failure=ehkafka.DeadLetter("readings.dead"))
class Store:
    def process(self, batch: ehkafka.Batch) -> None:
        print(len(batch))


# What is decorated keeps its own type.
assert_type(handle_own_topic.__name__, str)
assert_type(Doors(3).count, int)
assert_type(Store().process(ehkafka.Batch([])), None)
a_number: int = handle_own_topic(ehkafka.Record(confluent_kafka.Message()), more=2)  # type: ignore[arg-type]

# Handlers without a decorator.
app.handler("printed")(print)
app.handler("adapted", workers=1)(ehkafka.adapt(handle_message))
app.handler("lambda")(lambda record: print(record))
seen: list[Any] = []
app.handler("method")(seen.append)


class Callee:
    def __call__(self, record: ehkafka.Record) -> None:
        """Be called."""


app.handler("object")(Callee())


@app.use
def log(record: Any, call_next: Callable[[Any], Any]) -> Any:
    return call_next(record)


@app.use
async def log_async(record: Any, call_next: Callable[[Any], Any]) -> Any:
    return await call_next(record)


app.use(log_attempts())


@app.on_start
@app.on_stop
@app.on_worker_start
@app.on_worker_stop
def prepare() -> None:
    threading.Event()


@app.on_worker_start
async def prepare_loop() -> None:
    threading.Event()


@app.on_assigned
@app.on_lost
@app.on_idle
def note(partition: ehkafka.TopicPartition) -> None:
    print(partition.topic)
