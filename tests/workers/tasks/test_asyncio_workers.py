"""Asyncio workers without a broker: how many, fairness, each call's context, and what a stack shows."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import types
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from ehkafka.workers.tasks.shared import new_loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry

from tests.workers.tasks.conftest import LIMIT_S, Pool

# --- how many, and fairness ---------------------------------------------------------------------------


def test_a_handler_that_has_nothing_has_no_task(pool: Callable[..., Pool]) -> None:
    """100 000 workers cost no task each; as many rest as calls ran at once."""
    made = pool(100_000)
    made.receive(made.assign(), 0, [b"a", b"b"])
    made.wait(lambda: len(made.ended) == 2, watch=False)
    assert made.workers._tasks is not None
    assert len(made.workers._tasks._tasks) <= 2


# --- sharing the loop ---------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[b"one"], [b"k%d" % n for n in range(1_000)]], ids=["one key", "many"])
def test_calls_that_never_suspend_let_the_loop_have_its_turn(
    pool: Callable[..., Pool], keys: list[bytes]
) -> None:
    """However many tasks have records, another callback of the loop waits for a few milliseconds."""
    late_s: list[float] = []
    made: Pool

    async def compute(_entry: Entry) -> None:
        ends_s = time.perf_counter() + 2e-4
        while time.perf_counter() < ends_s:
            pass

    def ask() -> None:
        asked_s = time.perf_counter()

        def answer() -> None:
            late_s.append(time.perf_counter() - asked_s)
            if len(made.ended) < 5_000:
                ask()

        asyncio.get_running_loop().call_soon(answer)

    made = pool(1_000, compute)
    made.call_soon(ask)
    made.receive(made.assign(), 0, [keys[n % len(keys)] for n in range(5_000)])
    made.wait(lambda: len(made.ended) == 5_000, watch=False)
    # 5,000 calls are a second; a few late ones are the machine's.
    assert sorted(late_s)[-len(late_s) // 20] < 20e-3
    assert len(late_s) > 200


def test_tasks_that_wait_for_the_loop_have_their_turn_in_order(pool: Callable[..., Pool]) -> None:
    """Ten tasks with hundreds of records each that compute: none is a round of all behind another."""

    async def compute(_entry: Entry) -> None:
        ends_s = time.perf_counter() + 3e-4
        while time.perf_counter() < ends_s:
            pass

    made = pool(10, compute)
    hold = threading.Event()
    made.call_soon(lambda: hold.wait(LIMIT_S))
    made.receive(made.assign(), 0, [b"k%d" % (n % 10) for n in range(1_000)])
    hold.set()
    made.wait(lambda: len(made.ended) == 1_000, watch=False)
    first = made.ended[:300]
    assert len({offset % 10 for offset in first}) == 10


# --- each attempt by itself -------------------------------------------------------------------------------


def test_each_attempt_has_a_context_of_its_own(pool: Callable[..., Pool]) -> None:
    """What a handler sets is gone at the next record; what the set-up set is there."""
    own: ContextVar[str] = ContextVar("own", default="fresh")
    given: ContextVar[str] = ContextVar("given", default="nothing")
    seen: list[tuple[str, str]] = []

    async def check(_entry: Entry) -> None:
        seen.append((own.get(), given.get()))
        own.set("stale")
        given.set("stale")

    for set_up, expected in ((None, "nothing"), (lambda: given.set("from the set-up"), "from the set-up")):
        seen.clear()
        made = pool(1, check, set_up=set_up)
        made.receive(made.assign(), 0, [b"a", b"a", b"a", b"b"])
        made.wait(lambda made=made: len(made.ended) == 4)
        assert set(seen) == {("fresh", expected)}


# --- the loop itself -----------------------------------------------------------------------------------


def test_an_engine_error_ends_the_loop_visibly(pool: Callable[..., Pool]) -> None:
    """What is no handler's error is reported as the pool's death."""

    async def fail(_entry: Entry) -> None:
        raise ValueError

    made = pool(4, fail)
    made.workers._tasks._options = None  # type: ignore[union-attr, assignment]
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.deaths)
    assert isinstance(made.deaths[0], AttributeError)


def test_a_stuck_report_shows_the_oldest_calls_and_counts_the_others(pool: Callable[..., Pool]) -> None:
    """200 suspended calls are no report that one reads."""

    async def work(_entry: Entry) -> None:
        await asyncio.Event().wait()

    made = pool(200, work)
    made.receive(made.assign(), 0, [b"k%d" % n for n in range(200)])
    made.wait(lambda: len(made.started) == 200)
    stacks = made.workers.stacks()
    assert len(stacks) == 52
    assert stacks["ehkafka-x-loop …"] == "and 150 calls more\n"


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is what its `new_event_loop` makes."""
    made = object()
    monkeypatch.setitem(sys.modules, "uvloop", types.SimpleNamespace(new_event_loop=lambda: made))
    assert new_loop() is made


def test_without_uvloop_the_standard_loop_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is not needed."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_loop()
    assert type(loop).__module__.startswith("asyncio.")
    loop.close()
