"""Settings of every kind, as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import ehkafka

endpoint = ehkafka.Endpoint.kafka(
    "localhost:9092", {"security.protocol": "SSL", "socket.keepalive.enable": True}
)

app = ehkafka.App(
    group="doors",
    endpoint=endpoint,
    start="earliest",
    drain="all",
    stop_s=10,
    max_age=timedelta(days=1),
    commit_interval_s=None,
    assignor="cooperative-sticky",
    consumer={"session.timeout.ms": 6000},
)
app.configure(group="windows", start="latest", stop_s=2.5, handlers={"doors": {"workers": 3}})
app.run(until="caught_up", members=2)

ehkafka.App(group="g", start=0)
ehkafka.App(group="g", start=datetime.now(UTC))
ehkafka.App(group="g", start=timedelta(hours=1))
ehkafka.App(group="g", start={0: "earliest", 1: 12, "*": "latest"})
ehkafka.App(group="g", start=lambda topic, partition: len(topic) + partition)
ehkafka.App(group="g", start={("doors", 0): timedelta(hours=1)}, drain=True, reset="again")


def from_elsewhere(options: dict[str, Any]) -> ehkafka.App:
    """Give what a file or a test says, whatever it is."""
    return ehkafka.App(group="g", start="earliest", **options)
