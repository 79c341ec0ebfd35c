"""A topic is read into a table."""

import ehkafka
import ehkafka.arrow
from ehkafka.testing import EmbeddedBroker

with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", b"one"), ("home-1", b"two")])
    table = ehkafka.arrow.read(ehkafka.Endpoint.kafka(broker.bootstrap), "readings", start="earliest").table()
    assert table.column("value").to_pylist() == [b"one", b"two"]
