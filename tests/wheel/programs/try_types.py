"""A handler is given a dataclass."""

from dataclasses import dataclass

import ehkafka
from ehkafka.testing import EmbeddedBroker


@dataclass
class Reading:
    """What a payload holds."""

    celsius: float


with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", b'{"celsius": 20.5}')])
    app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    handled = []

    @app.handler("readings")
    def handle(reading: Reading) -> None:
        handled.append(reading)

    app.run(until="caught_up")
    assert handled == [Reading(20.5)]
