"""Callbacks run on the loop and may await the consumer, with one thread; nothing stands still."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from ehkafka.aio import AIOConsumer, reentry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Read = Callable[[AIOConsumer, int], Awaitable[list[Any]]]
    Committed = Callable[[], int | None]


class OwnError(Exception):
    """What a program raises itself."""


@pytest.mark.parametrize("max_workers", [1, 4])
async def test_rebalance_callbacks_await_the_consumer(
    properties: dict[str, Any], read: Read, committed: Committed, max_workers: int
) -> None:
    """`on_assign` assigns where the program wants to begin, `on_revoke` commits and hears the answer."""
    seen: list[Any] = []

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        found = await consumer.committed(partitions, timeout=5.0)
        await asyncio.sleep(0.01)
        await consumer.assign([TopicPartition(p.topic, p.partition, 40) for p in found])
        seen.append(await consumer.assignment())

    async def on_revoke(consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.01)
        seen.extend(p.offset for p in await consumer.commit(asynchronous=False))

    async with AIOConsumer(properties, max_workers=max_workers) as consumer:
        await consumer.subscribe(["t"], on_assign=on_assign, on_revoke=on_revoke)
        seen.append((await read(consumer, 10))[0].offset())
    assert seen == [[TopicPartition("t", 0)], 40, 50]
    assert committed() == 50


async def test_callbacks_may_be_plain_functions(properties: dict[str, Any], read: Read) -> None:
    """Given by name or by place; both kinds run on the loop's thread and get the asyncio consumer."""
    seen: list[Any] = []

    def note(consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
        seen.append((consumer, threading.get_ident()))

    async with AIOConsumer(properties) as consumer:
        await consumer.subscribe(["t"], note, on_revoke=note)
        await read(consumer, 1)
    assert seen == [(consumer, threading.get_ident())] * 2


async def test_callbacks_of_the_configuration(properties: dict[str, Any], read: Read) -> None:
    """Statistics, answers to commits, errors and log lines, each on the loop. The dict is left as it is."""
    seen: set[str] = set()

    async def stats_cb(text: str) -> None:
        assert asyncio.get_running_loop()
        seen.add(json.loads(text)["type"])

    async def on_commit(error: Any, partitions: list[TopicPartition]) -> None:
        seen.add(f"committed {error} {partitions[0].offset}")

    class Log(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            assert asyncio.get_running_loop()
            seen.add("logged")

    logger = logging.Logger("of the program")  # noqa: LOG001 - this test's alone
    logger.addHandler(Log())
    more = {"statistics.interval.ms": 20, "stats_cb": stats_cb, "on_commit": on_commit}
    given = properties | more | {"logger": logger, "debug": "cgrp", "log_level": 7}
    before = dict(given)
    async with AIOConsumer(given) as consumer:
        assert given == before
        await consumer.subscribe(["t"])
        await consumer.commit((await read(consumer, 10))[-1])
        while len(seen) < 3:
            await consumer.poll(0.05)
    assert seen == {"consumer", "committed None 10", "logged"}


async def test_error_cb_runs_on_the_loop() -> None:
    """Nothing listens at the address."""
    heard = asyncio.Event()

    async def error_cb(_error: Any) -> None:
        heard.set()

    given = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "error_cb": error_cb, "log_level": 0}
    async with AIOConsumer(given) as consumer:
        while not heard.is_set():
            await consumer.poll(0.1)


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [(OwnError, OwnError, "^$"), (asyncio.CancelledError, RuntimeError, "on_assign was cancelled")],
)
async def test_what_a_callback_raises_comes_out_of_the_poll(
    properties: dict[str, Any], raised: type[BaseException], kind: type[Exception], words: str
) -> None:
    """The next poll goes on as if nothing had been; a cancelled callback is no cancelled poll."""

    async def on_assign(_consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
        raise raised

    async with AIOConsumer(properties) as consumer:
        await consumer.subscribe(["t"], on_assign=on_assign)
        with pytest.raises(kind, match=words):
            await consumer.poll(10.0)
        assert (await consumer.poll(10.0)).offset() == 0


async def test_a_callback_asks_several_things_at_once(
    properties: dict[str, Any], read: Read, committed: Committed
) -> None:
    """All but a poll, which is refused. One thread is enough, and one call may be late."""
    partition, answers, late = TopicPartition("t", 0), [], []

    async def stats_cb(_text: str) -> None:
        if len(answers) >= 2:
            return
        with pytest.raises(RuntimeError, match="inside a callback"):
            await consumer.poll(0)
        asked = (
            consumer.list_topics(timeout=5.0),
            consumer.cluster_id(timeout=5.0),
            consumer.position([partition]),
            consumer.get_watermark_offsets(partition, timeout=5.0),
        )
        answers.append([type(answer).__name__ for answer in await asyncio.gather(*asked)])
        # librdkafka calls back for the next statistics within the same call: not every call inside of a
        # callback survives that.
        await asyncio.sleep(0.5)
        # No task waits for this one, and the callback ends before it.
        late.append(asyncio.ensure_future(consumer.assignment()))

    given = properties | {"statistics.interval.ms": 200, "stats_cb": stats_cb}
    async with AIOConsumer(given, max_workers=1) as consumer:
        await consumer.subscribe(["t"])
        found = await read(consumer, 100)
        while len(answers) < 2:
            await consumer.poll(0.05)
        await asyncio.gather(*late)
        await consumer.commit(asynchronous=False)
    assert answers[0] == answers[1] == ["ClusterMetadata", "str", "list", "tuple"]
    assert [message.offset() for message in found] == list(range(100))
    assert committed() == 100


async def test_a_callback_of_one_consumer_uses_another(properties: dict[str, Any], read: Read) -> None:
    """The other one's calls go by its own threads."""
    async with (
        AIOConsumer(properties | {"group.id": "other"}) as other,
        AIOConsumer(properties) as consumer,
    ):

        async def on_assign(_consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
            await other.subscribe(["t"])
            assert len(await read(other, 5)) == 5

        await consumer.subscribe(["t"], on_assign=on_assign)
        assert len(await read(consumer, 5)) == 5


async def test_a_callback_may_close(properties: dict[str, Any], read: Read, committed: Committed) -> None:
    """The consumer is closed when the poll ends; `on_revoke` can still commit."""

    async def on_commit(_error: Any, _partitions: list[TopicPartition]) -> None:
        await consumer.close()

    async def on_revoke(revoked: AIOConsumer, _partitions: list[TopicPartition]) -> None:
        await revoked.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)

    consumer = AIOConsumer(properties | {"on_commit": on_commit}, max_workers=1)
    await consumer.subscribe(["t"], on_revoke=on_revoke)
    await consumer.commit((await read(consumer, 5))[-1])
    with pytest.raises(RuntimeError, match="Consumer closed"):  # noqa: PT012 - one of these is the first
        while True:
            await consumer.poll(0.1)
    assert not consumer._consumer.is_open
    assert committed() == 7


async def test_no_callback_is_no_function(properties: dict[str, Any]) -> None:
    """What cannot be called is refused by the call that gives it, by confluent-kafka's words."""
    async with AIOConsumer(properties) as consumer:
        with pytest.raises(TypeError):
            await consumer.subscribe(["t"], on_assign="no function")
        with pytest.raises(TypeError):
            AIOConsumer(properties | {"stats_cb": "no function"})


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_loop_that_ended_under_a_callback(
    properties: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    """The thread that called back does not wait for ever, or the program could not end."""
    monkeypatch.setattr(reentry, "STOPPED_S_MAX", 0.3)
    heard: list[str] = []
    loop = asyncio.new_event_loop()

    async def begin() -> AIOConsumer:
        called = asyncio.Event()

        async def on_assign(_consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
            called.set()
            await asyncio.sleep(60)

        consumer = AIOConsumer(properties, max_workers=1)
        await consumer.subscribe(["t"], on_assign=on_assign)
        polling.append(asyncio.create_task(consumer.poll(20.0)))
        await called.wait()
        return consumer

    polling: list[asyncio.Task[Any]] = []
    consumer = loop.run_until_complete(begin())
    if is_closed:
        loop.close()
    consumer.executor.submit(heard.append, "the thread is free").result(20)
    assert heard
    if not is_closed:
        with pytest.raises(RuntimeError, match="on_assign could not be called: the event loop"):
            loop.run_until_complete(polling[0])
        loop.run_until_complete(consumer.close())
        loop.close()
    else:
        asyncio.run(consumer.close())
