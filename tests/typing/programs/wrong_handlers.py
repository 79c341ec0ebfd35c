"""Handlers and hooks that no call fits: each marked line is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka

import ehkafka

app = ehkafka.App(group="doors", start="earliest")


@app.handler("readings")  # error
def nothing() -> None:
    """Take no record."""


@app.handler("readings")  # error
def three(one: ehkafka.Record, two: str, three: str) -> None:
    """Take more than there is."""


@app.handler("readings")  # error
async def by_name(*, record: ehkafka.Record) -> None:
    """Take by name what is given by place."""


class Unprocessed:
    def handle(self, record: ehkafka.Record) -> None:
        """Have another name."""


app.handler("readings")(Unprocessed)  # error


class Needy:
    def __init__(self, first: int, second: int) -> None:
        """Need what no call gives."""

    def process(self, record: ehkafka.Record) -> None:
        """Handle a record."""


app.handler("readings")(Needy)  # error


class Empty:
    def process(self) -> None:
        """Take no record."""


app.handler("readings")(Empty)  # error


@app.handler("readings", raw=True)  # error
def raw(record: ehkafka.Record) -> None:
    """Take what is no message."""


class Raw:
    def process(self, record: ehkafka.Record) -> None:
        """Take what is no message."""


app.handler("readings", raw=True)(Raw)  # error


@app.batch_handler("readings")  # error
def one_by_one(record: ehkafka.Record) -> None:
    """Take a record."""


class OneByOne:
    def process(self, record: ehkafka.Record) -> None:
        """Take a record."""


app.batch_handler("readings")(OneByOne)  # error


@app.batch_handler("readings")  # error
def both(batch: ehkafka.Batch, more: str) -> None:
    """Take more than there is."""


app.handler("readings")(12)  # error
app.handler(["readings"])  # error
app.handler("readings", workers="32")  # error
app.handler("readings", worker=32)  # error
app.handler("readings", scope="topic")  # error
app.handler("readings", order_by=lambda record: record.kee())  # error
app.handler("readings", order_by="home")  # error
app.handler("readings", start="erliest")  # error
app.handler("readings", on_failure="skip")  # error
app.handler("readings", on_failure=ehkafka.Skip)  # error
app.handler("readings", retry=3)  # error
app.handler("readings", headers="text")  # error
app.handler("readings", max_age=60)  # error
app.handler("readings", deadline_s="30")  # error
app.handler("readings", batch_records_max=100)  # error
app.batch_handler("readings", max_records=100)  # error
app.batch_handler("readings", deadline_s=100)  # error
app.batch_handler("readings", workers=ehkafka.Processes(2))  # error
ehkafka.Retry(attempt=3)  # error
ehkafka.DeadLetter(3)  # error


@app.use  # error
def lone(record: Any) -> None:
    """Take no next one."""


@app.on_start  # error
def started(app: ehkafka.App) -> None:
    """Take what no call gives."""


@app.on_worker_start  # error
def begun(worker: int) -> None:
    """Take what no call gives."""


@app.on_assigned  # error
def assigned(consumer: confluent_kafka.Consumer, partitions: list[Any]) -> None:
    """Take what confluent-kafka gives."""


@app.on_revoked  # error
def revoked(partition: ehkafka.TopicPartition) -> None:
    """Take no reason."""


@app.on_error  # error
def failed(error: Exception) -> None:
    """Take the error alone."""


def returned() -> Callable[[ehkafka.Record], int]:
    @app.handler("readings")
    def handle(record: ehkafka.Record) -> str:
        return record.where

    return handle  # error
