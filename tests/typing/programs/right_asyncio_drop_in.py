"""A program with the drop-in for asyncio."""

from __future__ import annotations

from typing import Any, assert_type

from confluent_kafka import TopicPartition

from ehkafka.aio import AIOConsumer


async def assigned(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
    await consumer.assign(partitions)


async def program(config: dict[str, Any]) -> None:
    async with AIOConsumer(config, contiguous=True, sync_commit="deferred") as consumer:
        await consumer.subscribe(["readings"], on_assign=assigned, on_lost=print)
        message = await consumer.poll(1.0)
        assert message is not None
        await consumer.store_offsets(message)
        assert_type(await consumer.commit(message), None)
        assert_type(await consumer.commit(asynchronous=False), list[TopicPartition])
        assert_type(await consumer.committed([], timeout=1.0), list[TopicPartition])
        print(len(await consumer.consume(100, timeout=1.0)), await consumer.assignment())
    await AIOConsumer(config, 2, endpoint=None).close()
