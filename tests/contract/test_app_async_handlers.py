"""Handlers that are `async def`: what is the same as for plain ones, and what only they have.

The promises that all kinds of workers share are in `test_kinds`.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import StuckReport
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until


class Calls:
    """An object with an async `__call__`."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def __call__(self, record: Any) -> None:
        """Handle a record."""
        await asyncio.sleep(0)
        self.offsets.append(record.offset())


# --- what may be a handler ----------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [False, True])
def test_a_function_an_object_and_a_partial_may_be_async(lab: Any, raw: bool) -> None:
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
    wait_until(lambda: (lab.committed(), lab.committed(topic="u")) == (4, 2))
    app.stop()
    assert [offset for offset in calls.offsets if offset != 2] == [0, 1, 3]
    assert threads == {"ehkafka-partial-loop"}


# --- middleware and hooks -------------------------------------------------------------------------------


def test_worker_hooks_run_once_on_the_loop_and_may_be_async(lab: Any) -> None:
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
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert [word for word, _ in noted] == ["start", "record", "stop"]
    assert len({loop for _, loop in noted}) == 1


# --- cancelling and deadlines ---------------------------------------------------------------------------


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


def test_a_call_that_blocks_the_loop_is_named_by_a_stuck_report(lab: Any, events: Any) -> None:
    """The report shows the blocking frame, and the calls that wait behind it."""
    gate = threading.Event()

    async def blocks_the_loop(_record: Any) -> None:
        gate.wait(30.0)

    lab.produce("a b")
    app = lab.start(blocks_the_loop, stuck_s=0.3)
    wait_until(lambda: events.of(StuckReport))
    gate.set()
    app.stop()
    (report, *_) = events.of(StuckReport)
    assert "in blocks_the_loop" in report.stacks
    assert report.running == ("t[0]@0 key a",)
