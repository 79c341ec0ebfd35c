"""Alerts: each reading that is an alarm goes to the topic `alerts`, in order per home.

    python -m home_pipeline.alerts     # a process of its own, next to the local engine

On Spark the same app runs inside of the engine's session (see `spark_engine`). A reading is committed when
the broker has acknowledged its alert, so none is lost; an alert that comes twice, after a crash, says the
same `reading`. Settings as in `local_engine`.
"""

from __future__ import annotations

from dataclasses import dataclass

import ehkafka
from home_pipeline.readings import TOPIC
from home_pipeline.rules import parse
from home_pipeline.stage import app_endpoint

ALERTS = "alerts"
GROUP = "home-security-alerts"


@dataclass(frozen=True, slots=True)
class Alert:
    """What is sent, as JSON, with the home as its key."""

    home: str
    kind: str
    value: float
    at_us: int
    reading: str
    """Where the reading is: two alerts of one reading are one."""


def alert_of(record: ehkafka.Record) -> Alert | None:
    """Return what to send for a reading, None for one that is no alarm or must not be counted."""
    reading = parse(record.value(), record.timestamp()[1])
    if reading is None or not reading.alarm:
        return None
    return Alert(reading.home, reading.kind, reading.value, reading.at_us, record.where)


def make_app(endpoint: ehkafka.Endpoint) -> ehkafka.App:
    """Return the app, for a process or for Spark."""
    app = ehkafka.App(group=GROUP, endpoint=endpoint, start="earliest")
    app.handler(TOPIC, to=ALERTS, workers=4)(alert_of)
    return app


def main() -> None:
    """Run until a signal, or until standard input ends (`--while-stdin`)."""
    make_app(app_endpoint()).run()


if __name__ == "__main__":
    main()
