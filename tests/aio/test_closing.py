"""The end of a consumer: during polls, twice, from another loop, and when the program forgets it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.aio import AIOConsumer as KafkaAIOConsumer

from ehkafka.aio import AIOConsumer
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from confluent_kafka import TopicPartition

    Read = Callable[[AIOConsumer, int], Awaitable[list[Any]]]
    Committed = Callable[[], int | None]


async def test_close_while_several_poll(properties: dict[str, Any], read: Read) -> None:
    """Each poll says that the consumer is closed, at once, and so does every later call."""
    consumer = AIOConsumer(properties)
    await consumer.subscribe(["t"])
    await read(consumer, 100)
    polls = [asyncio.create_task(consumer.poll(60.0)) for _ in range(5)]
    polls += [asyncio.create_task(consumer.consume(10)) for _ in range(5)]
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await consumer.close()
        ends = await asyncio.gather(*polls, return_exceptions=True)
    assert {(type(end), str(end)) for end in ends} == {(RuntimeError, "Consumer closed")}
    for call in (consumer.poll, consumer.close, consumer.assignment):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            await call()
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")])


async def test_automatic_commits_at_close_leave_out_what_a_task_may_still_handle(
    properties: dict[str, Any], read: Read, committed: Committed
) -> None:
    """As in `ehkafka.Consumer`: what the last poll returned is delivered again."""
    async with AIOConsumer(properties | {"enable.auto.commit": True}) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 10)
        assert (await consumer.poll(5.0)).offset() == 10
    assert committed() == 10


async def test_a_close_that_is_cancelled_goes_on(
    properties: dict[str, Any], read: Read, committed: Committed
) -> None:
    """What was asked to be committed is, and its thread ends."""

    async def on_revoke(_consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.2)

    consumer = AIOConsumer(properties)
    await consumer.subscribe(["t"], on_revoke=on_revoke)
    await consumer.commit((await read(consumer, 10))[-1])
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await consumer.close()
    while consumer._consumer.is_open:  # noqa: ASYNC110 - a thread closes it
        await asyncio.sleep(0.01)
    assert committed() == 10


def test_an_executor_of_the_programs_own_is_left_alone(properties: dict[str, Any]) -> None:
    """It was not made here, and may serve others."""

    async def program() -> None:
        async with AIOConsumer(properties, executor=own) as consumer:
            assert consumer.executor is own
            assert await consumer.assignment() == []

    with ThreadPoolExecutor(1) as own:
        asyncio.run(program())
        assert own.submit(lambda: True).result()


async def test_another_loop_is_refused(properties: dict[str, Any]) -> None:
    """A clear error instead of a callback that waits for the wrong loop."""
    async with AIOConsumer(properties) as consumer:

        async def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="belongs to another event loop"):
                await consumer.poll(0)
            with pytest.raises(RuntimeError, match="belongs to another event loop"):
                await consumer.close()

        await asyncio.to_thread(asyncio.run, elsewhere())
        assert await consumer.poll(0) is None


def test_a_consumer_whose_loop_was_closed_can_be_closed_from_another(
    properties: dict[str, Any], read: Read, committed: Committed
) -> None:
    """With its commits and its callbacks; nothing else is possible there."""
    revoked: list[asyncio.AbstractEventLoop] = []

    async def first() -> AIOConsumer:
        async def on_revoke(consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
            revoked.append(asyncio.get_running_loop())
            await consumer.commit(asynchronous=False)

        consumer = AIOConsumer(properties)
        await consumer.subscribe(["t"], on_revoke=on_revoke)
        await read(consumer, 10)
        return consumer

    async def second(consumer: AIOConsumer) -> None:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await consumer.poll(0)
        await consumer.close()
        assert revoked == [asyncio.get_running_loop()]

    asyncio.run(second(asyncio.run(first())))
    assert committed() == 10


def test_a_loop_that_is_closed_under_a_poll(properties: dict[str, Any], read: Read) -> None:
    """No task gets the record that its thread takes, and none commits it."""

    async def first() -> AIOConsumer:
        consumer = AIOConsumer(properties)
        await consumer.subscribe(["t"])
        await read(consumer, 10)
        poll, free = consumer._consumer.poll, threading.Event()

        def late(limit_s: float) -> Any:
            found = poll(limit_s)
            free.wait(10)
            return found

        consumer._consumer.poll = late  # type: ignore[method-assign]
        polling = asyncio.create_task(consumer.poll(5.0))
        await asyncio.sleep(0.05)
        threading.Timer(0.3, free.set).start()
        del polling
        return consumer

    consumer = asyncio.run(first())
    wait_until(lambda: [message.offset() for message in consumer._consumer._kept] == [10])
    asyncio.run(consumer.close())


def test_no_loop_no_consumer(properties: dict[str, Any]) -> None:
    """As with confluent-kafka's."""
    with pytest.raises(RuntimeError, match="no running event loop"):
        AIOConsumer(properties)


def test_a_consumer_that_is_not_closed_is_collected(properties: dict[str, Any], read: Read) -> None:
    """Its client goes with it, and no thread stays."""

    async def program() -> None:
        consumer = AIOConsumer(properties)
        await consumer.subscribe(["t"])
        await read(consumer, 1)

    asyncio.run(program())
    wait_until(
        lambda: not [t for t in threading.enumerate() if t.name.startswith("ThreadPool")],
        meanwhile=gc.collect,
    )


def test_it_is_confluents_own_class() -> None:
    """Programs that ask for its class, and methods that are to come, find it."""
    assert issubclass(AIOConsumer, KafkaAIOConsumer)
