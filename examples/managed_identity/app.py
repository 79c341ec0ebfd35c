"""No key anywhere: `EHKAFKA_NAMESPACE=home ehkafka run examples/managed_identity/app.py`."""

import logging
import os

import ehkafka

endpoint = ehkafka.Endpoint.entra(os.environ["EHKAFKA_NAMESPACE"])  # the machine's identity, or yours
app = ehkafka.App(group="home-security", endpoint=endpoint, start="earliest")
doors: dict[object, str] = {}  # needs no lock: the readings of one home are handled one after another


@app.handler("readings", workers=64)
def watch(record: ehkafka.Record) -> None:
    home, door = record.partition_key, record.json()["door"]
    logging.getLogger("doors").info("%s: %s, before %s", home, door, doors.get(home, "unknown"))
    doors[home] = door
