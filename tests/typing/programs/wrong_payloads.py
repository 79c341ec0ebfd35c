"""Handlers of decoded payloads that no call fits: each marked line is an error."""

from __future__ import annotations

from dataclasses import dataclass

import ehkafka


@dataclass
class Reading:
    home: str
    celsius: float


@dataclass
class Door:
    home: str
    is_open: bool


app = ehkafka.App(group="doors", start="earliest")


@app.handler("readings")  # error
def two(reading: Reading, door: Door) -> None:
    """Take two payloads of one record."""


@app.handler("readings")  # error
def three(record: ehkafka.Record, reading: Reading, door: Door) -> None:
    """Take more than there is."""


class Doors:
    def process(self, door: Door, reading: Reading) -> None:
        """Take two payloads of one record."""


app.handler("doors")(Doors)  # error


@app.batch_handler("readings")  # error
def store(readings: list[Reading]) -> None:
    """Take what is no batch."""


@app.handler("readings")
def handle(reading: Reading) -> None:
    print(reading.celcius)  # error


@app.batch_handler("readings")
def store_all(batch: ehkafka.Batch[Reading]) -> None:
    print(batch.values[0].celcius)  # error
    print(batch.valuse)  # error


app.handler("readings", values=Reading)  # error
app.handler("readings", decoder="json")  # error
app.handler("readings", raw=True, value=Reading)  # error
app.batch_handler("readings", decoder="json")  # error
app.handler("readings", decoder=lambda: {"home": 1})  # error
app.handler("readings", decoder=Reading)  # error
app.batch_handler("readings", decoder=lambda one, two, three: {})  # error
handle(Door("a", is_open=True))  # error
handle()  # error
