"""Several tasks at one consumer: none waits for another's poll, nothing is lost, marks come in any order."""

from __future__ import annotations

import asyncio
import random
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from ehkafka.aio import AIOConsumer
from ehkafka.consumer.marks import Marks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    Read = Callable[[AIOConsumer, int], Awaitable[list[Any]]]
    Committed = Callable[[], int | None]


async def test_several_poll_at_once(properties: dict[str, Any], committed: Committed) -> None:
    """Each record is one task's; a bare commit when all are done has them all."""
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
    assert found == list(range(100))
    assert committed() == 100


async def test_other_calls_come_in_beside_a_poll_without_end(
    properties: dict[str, Any], read: Read, committed: Committed
) -> None:
    """A poll that waits for ever keeps no other task out for long; confluent-kafka's would."""
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
    assert committed() == 100


async def test_a_poll_beside_another_keeps_its_time_out(properties: dict[str, Any], read: Read) -> None:
    """It returns nothing when its time is over, whichever task is before it."""
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


async def test_tasks_mark_in_any_order(properties: dict[str, Any], read: Read, committed: Committed) -> None:
    """`contiguous=True`: no commit passes a record that a task has not marked, and polls are bounded."""
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
    assert committed() == 100


async def test_partitions_are_paused_on_a_thread_and_not_on_the_loop(
    properties: dict[str, Any], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`contiguous=True`: to pause may have to wait for the thread inside the client."""
    seen: set[int] = set()
    pause_stuck = Marks.pause_stuck

    def noted(marks: Marks) -> None:
        seen.add(threading.get_ident())
        pause_stuck(marks)

    monkeypatch.setattr(Marks, "pause_stuck", noted)
    async with AIOConsumer(properties, contiguous=True) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 100)
        assert seen
        assert threading.get_ident() not in seen
