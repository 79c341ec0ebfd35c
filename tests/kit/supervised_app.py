"""An app of one handler that supervised members run, each of their processes with a history of its own.

The environment says what it does, as JSON in `SUPERVISED`. Imported by `ehkafka run` and by its members.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import ehkafka
from tests.kit.checker.history_file import JsonLinesHistory
from tests.kit.inside import with_history

OPTIONS = json.loads(os.environ["SUPERVISED"])
LEAST_S, MOST_S = OPTIONS["handler_s"]

app = ehkafka.App(
    group=OPTIONS["group"],
    endpoint=ehkafka.Endpoint.kafka(OPTIONS["bootstrap"]),
    start="earliest",
    consumer=OPTIONS["consumer"],
    **OPTIONS["settings"],
)
with_history(app, JsonLinesHistory(Path(OPTIONS["directory"], f"{OPTIONS['name']}-{os.getpid()}.jsonl")))


@app.handler(OPTIONS["topic"], workers=16)
def handle(_record: ehkafka.Record) -> None:
    """Take a while."""
    time.sleep(random.uniform(LEAST_S, MOST_S))
