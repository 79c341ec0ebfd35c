"""Handlers that are coroutines run on a loop of uvloop's."""

import asyncio

import ehkafka
from ehkafka.testing import EmbeddedBroker

with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", b"{}")])
    app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    loops = []

    @app.handler("readings")
    async def handle(record: ehkafka.Record) -> None:
        loops.append(type(asyncio.get_running_loop()).__module__)

    app.run(until="caught_up")
    assert loops == ["uvloop"], loops
