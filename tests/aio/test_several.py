"""Several tasks at one consumer: nothing is lost, nobody waits for a poll, and marks come in any order."""

from __future__ import annotations

import asyncio
import random
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from ehkafka.aio import AIOConsumer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    Run = Callable[[Coroutine[Any, Any, Any]], Any]
    Read = Callable[[AIOConsumer, int], Awaitable[list[Any]]]
    Committed = Callable[[], int | None]


def test_several_poll_at_once(properties: dict[str, Any], run: Run, committed: Committed) -> None:
    """Each record is one task's; a bare commit when all are done has them all."""

    async def program() -> list[int]:
        found: list[int] = []

        async def take(consumer: AIOConsumer) -> None:
            while len(found) < 100:
                message = await consumer.poll(0.2)
                if message is not None:
                    found.append(message.offset())

        async with AIOConsumer(properties, max_workers=3) as consumer:
            await consumer.subscribe(["t"])
            await asyncio.gather(*(take(consumer) for _ in range(5)))
            await consumer.commit(asynchronous=False)
        return found

    assert run(program()) == list(range(100))
    assert committed() == 100


def test_other_calls_come_in_beside_a_poll_without_end(
    properties: dict[str, Any], run: Run, read: Read, committed: Committed
) -> None:
    """A poll that waits for ever keeps nobody out for long; confluent-kafka's would."""

    async def program() -> None:
        async with AIOConsumer(properties) as consumer:
            await consumer.subscribe(["t"])
            await read(consumer, 100)
            waiting = [asyncio.create_task(consumer.poll()), asyncio.create_task(consumer.consume(5))]
            async with asyncio.timeout(5):
                for _ in range(3):
                    assert await consumer.assignment() == [TopicPartition("t", 0)]
                    await consumer.pause([TopicPartition("t", 0)])
                    await consumer.resume([TopicPartition("t", 0)])
                    await consumer.commit(asynchronous=False) if committed() is None else None
                await consumer.seek(TopicPartition("t", 0, 99))
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()

    run(program())
    assert committed() == 100


def test_a_poll_beside_another_keeps_its_time_out(properties: dict[str, Any], run: Run, read: Read) -> None:
    """It returns nothing when its time is over, whoever is before it."""

    async def program() -> None:
        async with AIOConsumer(properties) as consumer:
            await consumer.subscribe(["t"])
            await read(consumer, 100)
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0.01)
            began_s = monotonic()
            assert await consumer.poll(0) is None
            assert await consumer.consume(5, 0.1) == []
            assert monotonic() - began_s < 2
            assert await consumer.consume(0, 60) == []
            assert monotonic() - began_s < 4
            waiting.cancel()

    run(program())


def test_tasks_mark_in_any_order(
    properties: dict[str, Any], run: Run, read: Read, committed: Committed
) -> None:
    """`contiguous=True`: no commit passes a record that a task has not marked, and polls are bounded."""

    async def program() -> None:
        chance = random.Random(3)
        async with AIOConsumer(properties, contiguous=True, unmarked_records_max=20) as consumer:
            await consumer.subscribe(["t"])
            messages: list[Any] = []
            open_ones: list[Any] = []
            while len(messages) < 100:
                batch = await consumer.consume(7, 0.2)
                messages += batch
                open_ones += batch
                assert len(open_ones) <= 20
                chance.shuffle(open_ones)
                done = [m for m in open_ones if m.offset() != 42][:10]
                open_ones = [m for m in open_ones if m not in done]
                await asyncio.gather(*(consumer.store_offsets(message=m) for m in done))
            while len(open_ones) > 1:
                await consumer.store_offsets(open_ones.pop(0 if open_ones[0].offset() != 42 else 1))
            assert [p.offset for p in await consumer.commit(asynchronous=False)] == [42]
            await consumer.commit(open_ones[0], asynchronous=False)

    run(program())
    assert committed() == 100


def test_what_a_cancelled_poll_took_needs_no_mark(
    properties: dict[str, Any], run: Run, read: Read, committed: Committed
) -> None:
    """It was nobody's, so nothing waits for it and nothing passes it."""

    async def program() -> None:
        async with AIOConsumer(properties, contiguous=True) as consumer:
            await consumer.subscribe(["t"])
            for message in await read(consumer, 10):
                await consumer.store_offsets(message)
            while not consumer._consumer._kept:
                task = asyncio.create_task(consumer.consume(5, 5.0))
                await asyncio.wait([task], timeout=0.0005)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
                await asyncio.sleep(0.02)
            assert [p.offset for p in await consumer.commit(asynchronous=False)] == [10]
            assert (await consumer.poll(5.0)).offset() == 10

    run(program())
    assert committed() == 10
