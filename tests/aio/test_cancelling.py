"""A poll that is cancelled loses no record, and no commit passes a record that no task was given."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from ehkafka.aio import AIOConsumer, job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Read = Callable[[AIOConsumer, int], Awaitable[list[Any]]]
    Committed = Callable[[], int | None]
    Begin = Callable[[AIOConsumer], asyncio.Task[Any]]


class OwnError(Exception):
    """What a program raises itself."""


def begin_poll(consumer: AIOConsumer) -> asyncio.Task[Any]:
    """Begin a poll for one record."""
    return asyncio.create_task(consumer.poll(5.0))


def begin_consume(consumer: AIOConsumer) -> asyncio.Task[Any]:
    """Begin a poll for three records."""
    return asyncio.create_task(consumer.consume(3, 5.0))


async def cancel(monkeypatch: pytest.MonkeyPatch, when: str, begin: Callable[[], asyncio.Task[Any]]) -> None:
    """Cancel a task when its record is off librdkafka's queue: just before it lands on the loop, or after."""
    land = job.Job._land
    tasks: list[asyncio.Task[Any]] = []

    def cancelling(self: job.Job, result: Any, error: BaseException | None) -> None:
        if when == "before":
            tasks[0].cancel()
        if when == "before" and not self._answer.done():
            asyncio.get_running_loop().call_soon(land, self, result, error)
            return
        land(self, result, error)
        tasks[0].cancel()

    with monkeypatch.context() as patch:
        patch.setattr(job.Job, "_land", cancelling)
        tasks.append(begin())
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("begin", [begin_poll, begin_consume])
async def test_the_next_poll_returns_what_a_cancelled_one_took(
    properties: dict[str, Any], read: Read, monkeypatch: pytest.MonkeyPatch, when: str, begin: Begin
) -> None:
    """In its old place: nothing is lost, repeated or put behind others."""
    async with AIOConsumer(properties) as consumer:
        await consumer.subscribe(["t"])
        first = await read(consumer, 10)
        await cancel(monkeypatch, when, lambda: begin(consumer))
        assert consumer._consumer._kept
        assert [message.offset() for message in first + await read(consumer, 90)] == list(range(100))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("auto", [False, True])
async def test_no_commit_passes_what_a_cancelled_poll_took(
    properties: dict[str, Any],
    read: Read,
    committed: Committed,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    *,
    auto: bool,
) -> None:
    """Neither a bare commit, nor the automatic one of a later poll and of the close."""
    async with AIOConsumer(properties | {"enable.auto.commit": auto}) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 10)
        await cancel(monkeypatch, when, lambda: begin_consume(consumer))
        if not auto:
            await consumer.commit(asynchronous=False)
    assert committed() == 10


async def begin_held_poll(
    consumer: AIOConsumer, monkeypatch: pytest.MonkeyPatch
) -> tuple[asyncio.Task[Any], threading.Event]:
    """Begin a poll whose record is off librdkafka's queue, and on its way once the event is set."""
    polled, go_on = asyncio.Event(), threading.Event()
    loop, poll = asyncio.get_running_loop(), consumer._consumer.poll

    def slow(limit_s: float) -> Any:
        found = poll(limit_s)
        loop.call_soon_threadsafe(polled.set)
        go_on.wait(10)
        return found

    monkeypatch.setattr(consumer._consumer, "poll", slow)
    task = begin_poll(consumer)
    await polled.wait()
    return task, go_on


async def test_no_commit_passes_what_is_on_its_way_to_a_task(
    properties: dict[str, Any], read: Read, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off librdkafka's queue and not yet a task's: another task's bare commit leaves it out."""
    async with AIOConsumer(properties) as consumer:
        await consumer.subscribe(["t"])
        await read(consumer, 10)
        task, go_on = await begin_held_poll(consumer, monkeypatch)
        places = await consumer.commit(asynchronous=False)
        assert [place.offset for place in places] == [10]
        go_on.set()
        assert (await task).offset() == 10
        assert (await consumer.commit(asynchronous=False))[0].offset == 11
    assert committed() == 11


async def test_a_close_passes_nothing_that_is_on_its_way_to_a_task(
    properties: dict[str, Any], read: Read, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the client's own position, which is behind it already; the task gets it all the same."""
    consumer = AIOConsumer(properties | {"enable.auto.commit": True})
    await consumer.subscribe(["t"])
    await read(consumer, 10)
    assert await consumer.consume(0) == []  # a later poll: the ten are done with
    task, go_on = await begin_held_poll(consumer, monkeypatch)
    closing = asyncio.create_task(consumer.close())
    while consumer._consumer.is_open:  # noqa: ASYNC110 - a thread closes it
        await asyncio.sleep(0.01)
    go_on.set()
    await closing
    assert (await task).offset() == 10
    assert committed() == 10


@pytest.mark.parametrize("seed", range(3))
async def test_polls_under_short_time_outs_lose_nothing(properties: dict[str, Any], seed: int) -> None:
    """Cancelled at random moments, two hundred times and more."""
    chance, found = random.Random(seed), []
    async with AIOConsumer(properties, max_workers=2) as consumer:
        await consumer.subscribe(["t"])
        while len(found) < 100:
            many = chance.random() < 0.3
            call = consumer.consume(3, 1.0) if many else consumer.poll(1.0)
            task: asyncio.Task[Any] = asyncio.ensure_future(call)
            await asyncio.wait([task], timeout=chance.choice([0, 0.0001, 0.0003, 0.001, 0.01]))
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                result = task.result()
                found.extend(m.offset() for m in (result if many else [result]) if m is not None)
    assert found == list(range(100))


async def test_what_a_cancelled_poll_took_needs_no_mark(
    properties: dict[str, Any], read: Read, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`contiguous=True`: no task was given it, so nothing waits for it and nothing passes it."""
    async with AIOConsumer(properties, contiguous=True) as consumer:
        await consumer.subscribe(["t"])
        for message in await read(consumer, 10):
            await consumer.store_offsets(message)
        await cancel(monkeypatch, "before", lambda: begin_consume(consumer))
        assert [p.offset for p in await consumer.commit(asynchronous=False)] == [10]
        assert (await consumer.poll(5.0)).offset() == 10
    assert committed() == 10


async def test_what_is_kept_is_dropped_by_a_seek(
    properties: dict[str, Any], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that seeks elsewhere gets the first record there."""
    async with AIOConsumer(properties) as consumer:
        await consumer.assign([TopicPartition("t", 0, 0)])
        await read(consumer, 10)
        await cancel(monkeypatch, "before", lambda: begin_consume(consumer))
        await consumer.seek(TopicPartition("t", 0, 5))
        assert [message.offset() for message in await read(consumer, 10)] == list(range(5, 15))


async def test_an_error_of_a_cancelled_poll_is_raised_by_the_next(properties: dict[str, Any]) -> None:
    """What its callbacks raised is not lost either."""
    called, let_go = asyncio.Event(), asyncio.Event()

    async def on_assign(_consumer: AIOConsumer, _partitions: list[TopicPartition]) -> None:
        called.set()
        await let_go.wait()
        raise OwnError

    async with AIOConsumer(properties) as consumer:
        await consumer.subscribe(["t"], on_assign=on_assign)
        task = begin_poll(consumer)
        await called.wait()
        task.cancel()
        let_go.set()
        with pytest.raises(OwnError):
            await consumer.poll(5.0)
        assert (await consumer.poll(5.0)).offset() == 0


async def test_a_poll_that_is_cancelled_before_it_began(properties: dict[str, Any], read: Read) -> None:
    """Every thread is busy with something else: the next poll is free to begin."""
    async with AIOConsumer(properties, max_workers=1) as consumer:
        await consumer.subscribe(["t"])
        free = threading.Event()
        busy = consumer.executor.submit(free.wait, 10)
        for _ in range(3):
            task = begin_poll(consumer)
            await asyncio.sleep(0.01)
            task.cancel()
        free.set()
        assert busy.result()
        assert [message.offset() for message in await read(consumer, 100)] == list(range(100))


async def test_a_cancelled_call_whose_error_is_not_awaited(properties: dict[str, Any]) -> None:
    """The loop's own handler of exceptions is given it."""
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: heard.append(context))
    async with AIOConsumer(properties) as consumer:
        loop, begun, free = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def fail() -> None:
            loop.call_soon_threadsafe(begun.set)
            free.wait(10)
            raise OwnError

        task = asyncio.create_task(consumer._call(fail))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        free.set()
        assert await consumer.assignment() == []
    assert [type(context["exception"]) for context in heard] == [OwnError]
