"""Home security: sensor readings of many homes, handled in order per home, many homes at once.

    ehkafka run examples/home_security/app.py

Without EHKAFKA_BOOTSTRAP it brings its own broker and some readings; with it (`host:port`) it reads the
topic `readings` there. Ctrl-C stops it: what was received is finished and committed first.
"""

from __future__ import annotations

import json
import logging
import os
import random
from dataclasses import dataclass

from confluent_kafka import Producer

import ehkafka

# Not print: the lines of 64 workers would run into each other.
log = logging.getLogger("home-security")
HOMES = 1_000
READINGS = 20_000

bootstrap = os.environ.get("EHKAFKA_BOOTSTRAP")
endpoint = ehkafka.Endpoint.kafka(bootstrap) if bootstrap else ehkafka.Endpoint.embedded({"readings": 16})
app = ehkafka.App(group="home-security", endpoint=endpoint, start="earliest")


@dataclass
class Home:
    """What is known of one home."""

    armed: bool = True
    door_open: bool = False
    temperature: float | None = None
    alarms: int = 0


# A plain dict and no lock, although 64 workers use it: the readings of one home are handled one after
# another, so no two workers ever touch the same home; different homes are different entries.
homes: dict[str, Home] = {}


@app.handler("readings", workers=64)
def watch(record: ehkafka.Record) -> None:
    reading = record.json()
    name, kind, value = reading["home"], reading["kind"], reading["value"]
    home = homes.setdefault(name, Home())
    if kind == "door":
        # Order decides: an open door that had been open before is no news.
        if value and home.armed and not home.door_open:
            raise_alarm(name, home, "the door was opened", record)
            home.armed = False
        home.door_open = bool(value)
    elif kind == "motion":
        home.armed = home.armed or (not value and not home.door_open)
    elif kind == "smoke":
        if value > 0.9:
            raise_alarm(name, home, f"smoke {value}", record)
    else:
        home.temperature = value


def raise_alarm(name: str, home: Home, why: str, record: ehkafka.Record) -> None:
    home.alarms += 1
    log.warning("ALARM %s: %s (%s)", name, why, record.where)


@app.on_stop
def report() -> None:
    log.warning("%d homes, %d alarms", len(homes), sum(home.alarms for home in homes.values()))


@app.on_start
def bring_readings() -> None:
    """Fill our own broker; a real one gets its readings from real homes."""
    if bootstrap:
        return
    producer = Producer(endpoint.client_properties())
    draw = random.Random(1)  # noqa: S311 - the same homes every time
    for _ in range(READINGS):
        home = f"home-{draw.randrange(HOMES):04d}"
        kind = draw.choice(["door", "motion", "temperature"])
        value = draw.randrange(2) if kind != "temperature" else round(draw.uniform(10, 30), 1)
        producer.produce("readings", key=home, value=json.dumps({"home": home, "kind": kind, "value": value}))
    producer.flush(10)
