"""A registry of Prometheus shows an app."""

from prometheus_client import CollectorRegistry, generate_latest

import ehkafka
import ehkafka.metrics

app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.embedded({"readings": 1}), start="earliest")


@app.handler("readings")
def handle(record: ehkafka.Record) -> None: ...


registry = CollectorRegistry()
registry.register(ehkafka.metrics.Collector(app))
with app:
    assert b'group="homes"' in generate_latest(registry)
