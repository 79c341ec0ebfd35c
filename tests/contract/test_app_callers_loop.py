"""`loop="caller"`: coroutines run on the loop that entered the app, and never make it wait or lose a record.

What every kind of worker promises is in `test_kinds`, for this one, too.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

import ehkafka
from tests.contract.in_loop import Client, InLoop, until

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")


async def nothing(_record: Any) -> None:
    """Handle a record."""


# --- what runs there -------------------------------------------------------------------------------------


def test_handlers_hooks_and_batches_share_the_callers_clients_and_context(lab: Any) -> None:
    """Functions, classes, batches and hooks run on the entering thread with its context; all commits."""
    threads: set[str] = set()
    noted: list[str] = []
    app = lab.app(loop="caller")
    client: Client

    def note(word: str) -> None:
        assert REQUEST.get() == "the lifespan's"
        threads.add(threading.current_thread().name)
        noted.append(word)

    @app.handler("t", workers=8)
    async def one(record: Any) -> None:
        note("one")
        await client.send(record.offset())

    @app.handler("t4")
    class Each:
        async def process(self, record: Any) -> None:
            """Handle a record."""
            note("class")
            await client.send(100 + record.offset())

    @app.batch_handler("u", wait_s_max=0.05)
    async def several(batch: Any) -> None:
        note("batch")
        for record in batch:
            await client.send(200 + record.offset())

    @app.on_start
    async def opened() -> None:
        note("start")
        await client.send(-1)

    @app.on_stop
    async def closed() -> None:
        note("stop")
        await client.send(-2)

    async def main() -> None:
        nonlocal client
        client = Client()
        REQUEST.set("the lifespan's")
        for topic in ("t", "t4", "u"):
            lab.produce("a b c a", topic=topic)
        async with app:
            await until(lambda: len(client.sent) == 13)
        assert client.sent[0] == -1
        assert client.sent[-1] == -2
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert threads == {threading.current_thread().name}
    assert {noted[0], noted[-1], *noted} == {"start", "stop", "one", "class", "batch"}
    assert [lab.committed(topic=topic) for topic in ("t", "t4", "u")] == [4, 4, 4]


def test_worker_hooks_run_on_the_loop(lab: Any) -> None:
    """`on_worker_start` and `on_worker_stop` as on a loop of its own; one that fails fails the start."""
    noted: list[Any] = []
    app = lab.app(nothing, loop="caller")

    @app.on_worker_start
    async def opened() -> None:
        noted.append(asyncio.get_running_loop())
        if len(noted) == 3:
            raise ConnectionError("no pool")

    @app.on_worker_stop
    async def closed() -> None:
        noted.append(asyncio.get_running_loop())

    async def main() -> None:
        here = asyncio.get_running_loop()
        async with app:
            pass
        assert noted == [here, here]
        with pytest.raises(ConnectionError, match="no pool"):
            await app.__aenter__()
        assert app.state == "stopped"

    asyncio.run(main())


# --- what is refused -------------------------------------------------------------------------------------


def test_without_a_loop_it_is_refused(lab: Any) -> None:
    """`run`, `start` and `with` have none; so has Spark. Nothing has started."""
    app = lab.app(nothing, loop="caller")
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"run\(\) has no event loop"):
        app.run()
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"start\(\) has no event loop"):
        app.start()
    with pytest.raises(ehkafka.errors.ConfigurationError, match="write `async with app`"), app:
        pass
    with pytest.raises(ehkafka.errors.ConfigurationError, match="on Spark handlers run in other processes"):
        app.run_on_spark(None)
    assert app.state == "new"

    async def main() -> None:
        async with app:
            assert app.state == "running"

    asyncio.run(main())


# --- an object of another loop ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["handler", "batch_handler"])
def test_an_object_of_another_loop_is_explained(lab: Any, events: Any, kind: str) -> None:
    """The error, the log and the event name the handler and what to do."""
    app = lab.app()
    others: list[Any] = []

    async def store(_given: Any) -> None:
        await others[0]

    getattr(app, kind)("t")(store)
    lab.produce("a")

    async def main() -> None:
        others.append(asyncio.get_running_loop().create_future())
        async with app:
            await asyncio.sleep(20.0)

    with pytest.raises(ehkafka.errors.HandlerFailedError) as raised:
        asyncio.run(main())
    for words in ("attached to a different loop", "handler 'store'", "App(loop='caller')"):
        assert words in str(raised.value)
        assert words in events.of(ehkafka.events.HandlerFailed)[0].error


# --- the loop and the stop -------------------------------------------------------------------------------


def test_stop_on_the_loop_asks_and_returns(lab: Any) -> None:
    """In a handler, in its thread, and in any other coroutine: a wait there would wait for itself."""
    took_s: list[float] = []
    app = lab.app(loop="caller", stop_s=10.0)

    def stop() -> None:
        began_s = time.monotonic()
        app.stop()
        took_s.append(time.monotonic() - began_s)

    @app.handler("t")
    async def handle(_record: Any) -> None:
        await asyncio.to_thread(stop)
        stop()

    lab.produce("a")

    async def main() -> None:
        async with app:
            await until(lambda: len(took_s) == 2)
            stop()
            await until(lambda: app.state == "stopped")

    asyncio.run(main())
    assert len(took_s) == 3
    assert max(took_s) < 1.0
    assert lab.committed() == 1


def test_a_stop_while_the_loop_is_blocked_ends_in_time_and_loses_nothing(lab: Any) -> None:
    """What blocks is named, nothing of it is committed, and the next app handles it again."""
    gate, began = threading.Event(), threading.Event()
    seen: list[int] = []
    app = lab.app(loop="caller")

    @app.handler("t")
    async def block(record: Any) -> None:
        seen.append(record.offset())
        began.set()
        gate.wait(20.0)

    lab.produce("a b")
    entered = InLoop(app)
    entered.start()
    assert began.wait(10.0)
    began_s = time.monotonic()
    try:
        with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]"):
            app.stop(timeout_s=0.5)
        assert time.monotonic() - began_s < 4.0
    finally:
        gate.set()
    entered.close()
    assert lab.committed() in (None, 0)
    again = InLoop(lab.app(nothing, loop="caller"))
    again.start()
    deadline_s = time.monotonic() + 10.0
    while lab.committed() != 2 and time.monotonic() < deadline_s:
        time.sleep(0.02)
    again.stop()
    assert lab.committed() == 2
