"""Keep a copy of the group's commits in a store of your own: `ehkafka run examples/own_store/app.py`."""

import logging
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from store import SqliteStore  # type: ignore[import-not-found]

import ehkafka
from ehkafka.checkpoints import StoreMirror

broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
file = os.environ.get("CHECKPOINTS", "checkpoints.db")
app = ehkafka.App(
    group="own-store",
    endpoint=ehkafka.Endpoint.kafka(broker),
    start="earliest",
    mirror=StoreMirror(store=SqliteStore(file), interval_s=1.0, namespace="home"),
)


@app.handler("readings")
def handle(record: ehkafka.Record) -> None:
    """Log a reading."""
    logging.getLogger("own_store").info("%s: %s", record.key(), record.value())
