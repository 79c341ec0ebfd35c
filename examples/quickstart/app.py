"""Log readings, in order per key: `ehkafka run examples/quickstart/app.py`."""

import logging
import os

import ehkafka

broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="quickstart", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest")


@app.handler("readings", workers=64)
def handle(record: ehkafka.Record) -> None:
    logging.getLogger("quickstart").info("%s %s", record.where, record.json())
