"""Handlers of decoded payloads, as users write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import orjson
from confluent_kafka.serialization import StringDeserializer

import ehkafka
from ehkafka.codecs.azure import AzureSchemaRegistry
from ehkafka.codecs.custom import per_process


@dataclass
class Reading:
    home: str
    celsius: float


class Door(TypedDict):
    home: str
    is_open: bool


app = ehkafka.App(group="doors", start="earliest")


@app.handler("readings")
def handle(reading: Reading) -> None:
    print(reading.celsius + 1)


@app.handler("readings")
async def handle_both(record: ehkafka.Record, reading: Reading | None) -> None:
    print(record.where, reading and reading.home)


@app.handler("doors")
def handle_last(door: Door, record: ehkafka.Record) -> None:
    print(door["home"], record.where)


@app.handler("doors", value=Door)
def handle_given(record, door) -> None:  # type: ignore[no-untyped-def]
    print(door["home"], record.where)


@app.handler("texts", decoder=json.loads, order_by=ehkafka.by_partition)
def handle_decoded(_record: ehkafka.Record, payload: Any) -> None:
    print(payload)


@app.handler("bytes", decoder=lambda data, record: (record.where, data.decode()))
def handle_pair(payload: tuple[str, str]) -> None:
    print(payload)


@app.handler("avro", decoder=AzureSchemaRegistry("home"))
async def handle_avro(reading: Reading) -> None:
    print(reading.celsius)


def registry() -> AzureSchemaRegistry:
    return AzureSchemaRegistry("home")


@app.handler("avro", decoder=per_process(registry), workers=ehkafka.Processes(2))
def handle_in_processes(reading: Reading) -> None:
    print(reading.celsius)


app.handler("confluent", decoder=StringDeserializer())(print)
app.handler("json", decoder=orjson.loads)(print)


@app.handler("doors")
class Doors:
    def process(self, record: ehkafka.Record, door: Door) -> None:
        print(record.where, door["is_open"])


@app.batch_handler("readings")
def store(batch: ehkafka.Batch[Reading]) -> None:
    assert_type(batch.values, tuple[Reading, ...])
    for record, reading in zip(batch, batch.values, strict=True):
        print(record.where, reading.celsius)


@app.batch_handler("readings", value=Reading)
async def store_async(batch: ehkafka.Batch) -> None:
    print(batch.values[0].celsius)


handle(Reading("a", 1.0))
