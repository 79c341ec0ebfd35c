"""Handlers that are `async def`: what is the same as for plain ones, and what only they have.

The promises that all kinds of workers share are in `test_workers_contract`.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import StuckReport, UserCodeFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Calls:
    """An object with an async `__call__`."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def __call__(self, record: Any) -> None:
        """Handle a record."""
        await asyncio.sleep(0)
        self.offsets.append(record.offset())


class Process:
    """A class with an async `process`: one instance per partition."""

    seen: list[Any] = []  # noqa: RUF012 - shared by the instances on purpose

    def open(self, partition: Any) -> None:
        """Remember it."""
        self.seen.append(("open", str(partition)))

    async def process(self, record: Any) -> None:
        """Handle a record."""
        await asyncio.sleep(0)
        self.seen.append(record.offset())

    def close(self, reason: str) -> None:
        """Say goodbye."""
        self.seen.append(("close", reason))


async def nothing(_record: Any) -> None:
    """Handle a record."""


def ends_with(app: Any, kind: type[ehkafka.EhkafkaError], words: str) -> None:
    """Wait for the app to end by itself, and for the error that ended it."""
    assert app.wait(10.0)
    with pytest.raises(kind, match=words):
        app.stop()


# --- what may be a handler ----------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [False, True])
def test_a_function_an_object_and_a_partial_may_be_async(lab: Any, wait_for: Any, raw: bool) -> None:
    """Each runs on its own loop's thread, gets its records in order, and its commits follow."""
    threads: set[str] = set()

    async def handle(record: Any, _more: str) -> None:
        await asyncio.sleep(0)
        threads.add(threading.current_thread().name)
        assert isinstance(record, ehkafka.Record) is not raw

    calls = Calls()
    partial = functools.partial(handle, _more="")
    app = lab.app(calls, raw=raw)
    app.handler("u", raw=raw)(partial)
    lab.produce("a a b a")
    lab.produce("a b", topic="u")
    app.start()
    wait_for(lambda: (lab.committed(), lab.committed(topic="u")) == (4, 2))
    app.stop()
    assert [offset for offset in calls.offsets if offset != 2] == [0, 1, 3]
    assert threads == {"ehkafka-partial-loop"}


def test_a_class_with_an_async_process_gets_one_instance_per_partition(lab: Any, wait_for: Any) -> None:
    """Open and close around all records, on the hook thread."""
    Process.seen.clear()
    app = lab.app(Process)
    lab.produce("a a a")
    app.start()
    wait_for(lambda: lab.committed() == 3)
    app.stop()
    assert Process.seen == [("open", "t[0]"), 0, 1, 2, ("close", "stopped")]


def test_up_to_100_000_tasks_may_be_asked_for(lab: Any) -> None:
    """As many as the limit; one more is refused by name, as is what cannot be awaited."""

    async def yields(_record: Any) -> AsyncIterator[int]:
        yield 1

    class OpensLate(Process):
        async def open(self, partition: Any) -> None:
            """Open it on a thread without a loop."""

    app = lab.app()
    app.handler("t", workers=100_000)(nothing)
    for options, function, words in [
        (
            {"workers": 100_001},
            nothing,
            "workers=100001; .* 1 to 10000, or 100000 for an async def",
        ),
        ({}, yields, "contains yield"),
        ({}, OpensLate, r"open\(\) or close\(\) is an async def.*on_worker_start"),
    ]:
        with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
            app.handler("u", **options)(function)


# --- middleware and hooks -------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [nothing, Process], ids=["function", "class"])
def test_async_middleware_wraps_async_handlers_the_first_one_outermost(
    lab: Any, wait_for: Any, handler: Any
) -> None:
    """Order of entries and exits, and each awaits the next."""
    noted: list[str] = []
    app: ehkafka.App = lab.app(handler)

    def around(name: str) -> Any:
        async def middleware(record: Any, call_next: Any) -> Any:
            noted.append(f"{name} in")
            await asyncio.sleep(0)
            result = await call_next(record)
            noted.append(f"{name} out")
            return result

        return middleware

    app.use(around("outer"))
    app.use(around("inner"))
    lab.produce("a")
    app.start()
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    assert noted == ["outer in", "inner in", "inner out", "outer out"]


def test_middleware_of_the_other_kind_is_refused_at_the_start(lab: Any, recorder: Any) -> None:
    """Both ways, with both names; the app may be fixed and started."""

    async def wraps_async(record: Any, call_next: Any) -> None:
        await call_next(record)

    def wraps_plain(record: Any, call_next: Any) -> None:
        call_next(record)

    for handler, middleware, words in [
        (recorder, wraps_async, "'wraps_async' is an async def, but handler 'Recorder' is a plain function"),
        (nothing, wraps_plain, "'wraps_plain' is a plain function, but handler 'nothing' is an async def"),
    ]:
        app = lab.app(handler)
        app.use(middleware)
        with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
            app.start()
        assert app.state == "stopped"


def test_worker_hooks_run_once_on_the_loop_and_may_be_async(lab: Any, wait_for: Any) -> None:
    """What is bound to a loop is opened and closed on the handler's own."""
    noted: list[tuple[str, Any]] = []

    async def handle(_record: Any) -> None:
        noted.append(("record", asyncio.get_running_loop()))

    app = lab.app(handler=handle, workers=50)

    @app.on_worker_start
    async def opens() -> None:
        noted.append(("start", asyncio.get_running_loop()))

    @app.on_worker_stop
    async def closes() -> None:
        await asyncio.sleep(0)
        noted.append(("stop", asyncio.get_running_loop()))

    lab.produce("a")
    app.start()
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    assert [word for word, _ in noted] == ["start", "record", "stop"]
    assert len({loop for _, loop in noted}) == 1


def test_async_worker_hooks_beside_a_plain_handler_are_refused_at_the_start(lab: Any, recorder: Any) -> None:
    """A thread has no loop to run them on: the message names both."""
    app: ehkafka.App = lab.app(recorder)

    @app.on_worker_start
    async def opens() -> None: ...

    with pytest.raises(
        ehkafka.errors.ConfigurationError, match="'opens' is an async def, but handler 'Recorder'"
    ):
        app.start()


def test_an_async_worker_stop_hook_that_raises_is_reported_and_the_stop_ends(lab: Any, events: Any) -> None:
    """An event, not a dead thread's traceback."""
    app: ehkafka.App = lab.app(nothing)
    app.add_hook(events)

    @app.on_worker_stop
    async def broken() -> None:
        raise ConnectionError("cannot close")

    app.start()
    app.stop()
    assert [event.error for event in events.of(UserCodeFailed)] == ["ConnectionError: cannot close"]


# --- cancelling and deadlines ---------------------------------------------------------------------------


def test_at_the_deadline_of_a_stop_what_still_runs_is_cancelled(lab: Any, wait_for: Any) -> None:
    """The handler can clean up; the record is not committed, the loop has ended."""
    noted: list[str] = []

    async def handle(_record: Any) -> None:
        noted.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            noted.append("cancelled")
            raise

    lab.produce("a")
    app = lab.app(handle)
    app.start()
    wait_for(lambda: noted)
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key a"):
        app.stop(timeout_s=0.3)
    assert noted == ["begun", "cancelled"]
    assert lab.committed() in (None, 0)
    assert not [thread for thread in threading.enumerate() if thread.name == "ehkafka-handle-loop"]


def test_a_handler_that_raises_cancelled_error_by_itself_stops_the_app(lab: Any) -> None:
    """Nobody cancelled it, so nobody knows what became of the record: it is not committed."""

    async def handle(_record: Any) -> None:
        raise asyncio.CancelledError("from a task of its own")

    lab.produce("a")
    app = lab.app(handle, on_failure=ehkafka.Skip())
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, "CancelledError: from a task of its own")
    assert lab.committed() in (None, 0)


# --- problem ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shared", [False, True], ids=["its own", "with hooks"])
def test_a_loop_that_dies_fails_the_app_visibly_and_soon(lab: Any, is_shared: bool) -> None:
    """A task that a handler left behind exits: the app ends with an error, waiting for no call."""
    left: list[Any] = []

    async def leaves() -> None:
        sys.exit(3)

    async def handle(_record: Any) -> None:
        left.append(asyncio.get_running_loop().create_task(leaves()))
        await asyncio.Event().wait()

    lab.produce("a")
    app = lab.app(handle)
    if is_shared:
        app.on_start(functools.partial(asyncio.sleep, 0.0))
    app.start()
    began_s = time.monotonic()
    ends_with(app, ehkafka.errors.HandlerFailedError, r"handler 'handle' .*SystemExit: 3 at .*in leaves")
    assert time.monotonic() - began_s < 8.0
    assert isinstance(left[0].exception(), SystemExit)
    assert lab.committed() in (None, 0)


def test_a_call_that_blocks_the_loop_is_named_by_a_stuck_report(lab: Any, events: Any, wait_for: Any) -> None:
    """The report shows the blocking frame, and the calls that wait behind it."""
    gate = threading.Event()

    async def blocks_the_loop(_record: Any) -> None:
        gate.wait(30.0)

    lab.produce("a b")
    app = lab.app(blocks_the_loop, stuck_s=0.3)
    app.add_hook(events)
    app.start()
    wait_for(lambda: events.of(StuckReport))
    gate.set()
    app.stop()
    (report, *_) = events.of(StuckReport)
    assert "in blocks_the_loop" in report.stacks
    assert report.running == ("t[0]@0 key a",)


def test_a_coroutine_that_nobody_awaits_is_a_failure_and_no_finished_record(lab: Any) -> None:
    """A handler that forgets an await has handled nothing."""

    async def handle(record: Any) -> Any:
        return nothing(record)

    lab.produce("a")
    app = lab.app(handle)
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, "TypeError: the handler returned a coroutine")
    assert lab.committed() in (None, 0)
