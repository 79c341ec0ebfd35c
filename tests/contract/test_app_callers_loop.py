"""`loop="caller"`: coroutines run on the loop that entered the app, and never make it wait or lose a record.

What every kind of worker promises is in `test_workers_contract`, for this one, too.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import AttemptOverdue, UserCodeFailed
from tests.contract.in_loop import InLoop

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST", default="none")


async def until(true: Any, limit_s: float = 15.0) -> None:
    """Wait without blocking the loop."""
    async with asyncio.timeout(limit_s):
        while not true():
            await asyncio.sleep(0.005)


async def nothing(_record: Any) -> None:
    """Handle a record."""


class Client:
    """A client of some service, bound to the loop that made it and used by several calls at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self.sent: list[int] = []

    async def send(self, offset: int) -> None:
        """Send it."""
        async with self._lock:
            await asyncio.wait_for(self._loop.create_task(asyncio.sleep(0.001)), 5.0)
            self.sent.append(offset)


# --- what runs there -------------------------------------------------------------------------------------


def test_handlers_hooks_and_batches_share_the_callers_clients_and_context(lab: Any) -> None:
    """Functions, classes, batches and hooks run on the entering thread with its context; all is committed."""
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


def test_async_hooks_without_the_callers_loop_share_one_with_the_handlers(lab: Any) -> None:
    """What `on_start` opens serves all async handlers, also of an app that no loop has entered."""
    threads: set[str] = set()
    app = lab.app()
    clients: list[Client] = []

    @app.on_start
    async def opened() -> None:
        clients.append(Client())

    @app.handler("t")
    async def one(record: Any) -> None:
        threads.add(threading.current_thread().name)
        await clients[0].send(record.offset())

    @app.handler("u")
    async def other(record: Any) -> None:
        threads.add(threading.current_thread().name)
        await clients[0].send(100 + record.offset())

    @app.on_stop
    async def closed() -> None:
        await clients[0].send(-2)

    lab.produce("a b")
    lab.produce("a", topic="u")
    with app:
        deadline_s = time.monotonic() + 10.0
        while len(clients[0].sent) < 3 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert sorted(clients[0].sent) == [-2, 0, 1, 100]
    assert threads == {"ehkafka-app-loop"}
    assert not [thread for thread in threading.enumerate() if thread.name in threads]


def test_async_hooks_raise_as_others_do(lab: Any) -> None:
    """What on_start raises is the start's error, and on_stop's the stop's; the loop is gone."""
    app = lab.app(nothing)

    @app.on_start
    async def opened() -> None:
        raise ConnectionError("no pool")

    with pytest.raises(ConnectionError, match="no pool"):
        app.start()
    assert app.state == "stopped"

    other = lab.app(nothing)

    @other.on_stop
    async def closed() -> None:
        raise ConnectionError("no goodbye")

    other.start()
    with pytest.raises(ConnectionError, match="no goodbye"):
        other.stop()
    assert "ehkafka-app-loop" not in [thread.name for thread in threading.enumerate()]


# --- what is refused -------------------------------------------------------------------------------------


def test_without_a_loop_it_is_refused(lab: Any) -> None:
    """`run`, `start` and `with` have none; so has Spark. Nothing has started, and `async with` still works."""
    app = lab.app(nothing, loop="caller")
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"run\(\) enters it without one"):
        app.run()
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"start\(\) enters it without one"):
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


@pytest.mark.parametrize("options", [{"loop": "mine"}, {"on_end": "exit"}, {"on_end": nothing}])
def test_what_is_no_choice_is_refused_at_once(lab: Any, options: dict[str, Any]) -> None:
    """By its name."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=next(iter(options))):
        lab.app(nothing, **options)


def test_async_hooks_are_refused_on_spark(lab: Any) -> None:
    """There they run on the driver, which has no loop."""
    app = lab.app(nothing)
    app.on_start(lambda: None)

    @app.on_stop
    async def closed() -> None:
        """Close a pool."""

    with pytest.raises(ehkafka.errors.ConfigurationError, match="closed is an async def, but on Spark"):
        app.run_on_spark(None)


# --- an object of another loop ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["handler", "batch_handler"])
def test_an_object_of_another_loop_is_explained(lab: Any, events: Any, wait_for: Any, kind: str) -> None:
    """The error, the log and the event name the handler and what to do."""
    app = lab.app()
    app.add_hook(events)
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


def test_the_loop_goes_on_while_the_app_starts_works_and_stops(lab: Any) -> None:
    """Nothing of the app's waits on the loop."""
    longest_s = 0.0
    app = lab.app(nothing, loop="caller")
    lab.produce("a b c")

    async def tick() -> None:
        nonlocal longest_s
        loop = asyncio.get_running_loop()
        while True:
            before_s = loop.time()
            await asyncio.sleep(0.005)
            longest_s = max(longest_s, loop.time() - before_s)

    async def main() -> None:
        ticker = asyncio.create_task(tick())
        async with app:
            await until(lambda: app.snapshot().finished_records == 3)
        ticker.cancel()

    asyncio.run(main())
    assert longest_s < 0.4


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


def test_a_stop_from_another_thread_waits_and_the_block_ends_well(lab: Any, wait_for: Any) -> None:
    """Running calls end, their records are committed, and whoever is in the block is left alone."""
    began = threading.Event()
    app = lab.app(loop="caller")

    @app.handler("t")
    async def handle(_record: Any) -> None:
        began.set()
        await asyncio.sleep(0.3)

    lab.produce("a")
    entered = InLoop(app)
    entered.start()
    assert began.wait(10.0)
    app.stop()
    assert lab.committed() == 1
    entered.close()
    assert entered.error is None


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


def test_a_deadline_cancels_the_call_and_a_blocking_one_is_reported_with_its_stack(
    lab: Any, events: Any, wait_for: Any
) -> None:
    """A coroutine that waits is cancelled; one that blocks the loop is overdue, with the line it is at."""
    gate = threading.Event()
    app = lab.app(loop="caller")
    app.add_hook(events)
    ended: list[str] = []

    @app.handler("t", deadline_s=0.2, on_failure=ehkafka.Skip())
    async def handle(record: Any) -> None:
        if record.offset() == 0:
            try:
                await asyncio.sleep(20.0)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
        else:
            gate.wait(20.0)

    lab.produce("a")
    entered = InLoop(app)
    entered.start()
    wait_for(lambda: lab.committed() == 1)
    assert ended == ["cancelled"]
    lab.produce("a")
    try:
        wait_for(lambda: events.of(AttemptOverdue))
    finally:
        gate.set()
    assert "gate.wait" in events.of(AttemptOverdue)[0].stack
    wait_for(lambda: lab.committed() == 2)
    entered.stop()


# --- a loop that others end ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["handler", "batch_handler"])
@pytest.mark.parametrize("way", ["closed", "cancelled"])
def test_a_loop_that_ends_while_the_app_runs_ends_it_and_no_record_is_lost(
    lab: Any, wait_for: Any, way: str, kind: str
) -> None:
    """Not even with `Skip()`, nor where a handler makes a failure of its cancellation; the stop is quick."""
    began = threading.Event()
    app = lab.app(loop="caller", stop_s=20.0, on_end=lambda _error: None)

    async def handle(_given: Any) -> None:
        began.set()
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            raise ValueError("cut off") from None

    getattr(app, kind)("t", on_failure=ehkafka.Skip(), retry=ehkafka.Retry(attempts=1))(handle)
    lab.produce("a a b")
    loop = asyncio.new_event_loop()

    async def enter() -> None:
        await app.__aenter__()
        await until(began.is_set)
        if way == "cancelled":
            # As `asyncio.run` does with all that is left when its coroutine has ended.
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.wait(rest)

    loop.run_until_complete(enter())
    began_s = time.monotonic()
    if way == "closed":
        loop.close()
    assert app.wait(10.0)
    assert time.monotonic() - began_s < 5.0
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=r"The event loop that entered the app was"):
        app.stop()
    if way == "cancelled":
        loop.close()
    assert lab.committed() in (None, 0)


def test_the_end_of_asyncio_run_under_the_app_is_named(lab: Any) -> None:
    """A task that nobody awaits has entered it: the run ends with the loop, and leaves nothing behind."""
    began = threading.Event()
    app = lab.app(loop="caller")

    @app.handler("t", on_failure=ehkafka.Skip())
    async def handle(_record: Any) -> None:
        began.set()
        await asyncio.sleep(60.0)

    lab.produce("a")
    tasks: list[Any] = []

    async def live() -> None:
        async with app:
            await asyncio.sleep(60.0)

    async def main() -> None:
        tasks.append(asyncio.create_task(live()))
        await until(began.is_set)

    asyncio.run(main())
    assert app.state == "stopped"
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="await the task that is in it"):
        tasks[0].result()
    assert lab.committed() in (None, 0)


def test_http_is_mounted_beside_it(lab: Any) -> None:
    """`App.http_app` answers on the loop that the handlers share."""
    import httpx  # noqa: PLC0415 - for this test

    app = lab.app(nothing, loop="caller")
    lab.produce("a")

    async def main() -> None:
        transport = httpx.ASGITransport(app=app.http_app)
        async with app, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await until(lambda: app.snapshot().finished_records == 1)
            for path in ("/live", "/ready", "/metrics"):
                answer = await client.get(path)
                assert answer.status_code == 200, (path, answer.text)

    asyncio.run(main())


def test_what_on_end_raises_is_reported(lab: Any, events: Any, wait_for: Any) -> None:
    """As any hook's."""

    def end(_error: Exception) -> None:
        raise ValueError("no alarm")

    app = lab.app(lambda _record: 1 / 0, on_end=end)
    app.add_hook(events)
    lab.produce("a")
    app.start()
    wait_for(lambda: events.of(UserCodeFailed))
    assert events.of(UserCodeFailed)[0].where == "on_end"
    with pytest.raises(ehkafka.errors.HandlerFailedError):
        app.stop()
