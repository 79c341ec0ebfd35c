"""The app that the cluster's test ships: its handler notes what it got, where, and whose code it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ehkafka

app = ehkafka.App(group="cluster", endpoint=ehkafka.Endpoint.from_env(), start="earliest")


@app.handler(os.environ.get("CLUSTER_TOPIC", "unknown"), workers=4)
def note(record: ehkafka.Record) -> None:
    """Append a line to this process's file: one write each, so threads do not mix."""
    line = {"value": int(record.value()), "code": ehkafka.__file__, "executor": str(Path.cwd())}
    with (Path(os.environ["CLUSTER_NOTES"]) / str(os.getpid())).open("a") as file:
        file.write(json.dumps(line) + "\n")
