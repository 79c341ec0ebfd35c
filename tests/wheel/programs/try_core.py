"""An app handles a record of the broker in its process, and commits it."""

import ehkafka
from ehkafka.testing import EmbeddedBroker

with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", b'{"door": "open"}')])
    app = ehkafka.App(
        group="homes", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest", stop_s=10
    )
    doors = []

    @app.handler("readings")
    def handle(record: ehkafka.Record) -> None:
        doors.append(record.json()["door"])

    app.run(until="caught_up")
    assert doors == ["open"]
    assert broker.committed("homes", "readings") == {0: 1}
