"""Records of several topics become one stream: `ehkafka run examples/fan_in/app.py`.

Doors and windows say the same in their own words; `openings` has it in one form, in order for each home. With
`scope="handler"` a home's records of both topics are one queue, in the order in which they were received.
"""

import os
from dataclasses import dataclass

import ehkafka

broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="join", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest")


@dataclass
class Opening:
    """A door or a window of a home, which is the message's key; `source` is where that was said."""

    place: str
    open: bool
    source: str


@app.handler("doors", "windows", to="openings", scope="handler", on_failure=ehkafka.DeadLetter("unread"))
def join(record: ehkafka.Record) -> Opening | None:
    """Return what a record says; a window that is tilted is not open, and no news."""
    said = record.json()
    if record.topic() == "doors":
        return Opening(said["door"], said["state"] == "open", record.where)
    if said["position"] == "tilted":
        return None
    return Opening(said["window"], said["position"] == "wide", record.where)
