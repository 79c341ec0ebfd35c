"""Calls of the drop-in for asyncio that do not fit: each marked line is an error."""

from __future__ import annotations

from typing import Any

from ehkafka.aio import AIOConsumer


async def program(config: dict[str, Any]) -> None:
    AIOConsumer(config, contigous=True)  # error
    AIOConsumer(config, sync_commit="later")  # error
    consumer = AIOConsumer(config)
    await consumer.subscribe("readings")  # error
    await consumer.subscribe(["readings"], on_assigned=print)  # error
    await consumer.commit(asynchron=False)  # error
    await consumer.commit(offsets=3)  # error
    await consumer.committed([], time=1.0)  # error
    await consumer.poll(timeout="1")  # error
    await consumer.pol()  # error
    await consumer.seek([])  # error
    (await consumer.poll()).value()  # error
