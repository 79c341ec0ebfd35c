"""Traces and metrics go to the API, which drops them where no SDK is set up."""

import ehkafka
import ehkafka.otel
from ehkafka.testing import EmbeddedBroker

with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", b"{}")])
    app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    ehkafka.otel.Tracing(app)
    ehkafka.otel.Metrics(app)
    handled = []

    @app.handler("readings")
    def handle(record: ehkafka.Record) -> None:
        handled.append(record.offset())

    app.run(until="caught_up")
    assert handled == [0]
