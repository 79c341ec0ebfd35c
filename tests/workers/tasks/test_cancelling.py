"""What becomes of calls whose epoch ends, and of what a handler raises by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ehkafka.lanes.inbox import EPOCH
from tests.workers.tasks.conftest import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry
    from tests.workers.tasks.conftest import Pool


def test_calls_of_an_ended_epoch_are_cancelled_and_decide_nothing(pool: Callable[..., Pool]) -> None:
    """The handler sees CancelledError; `Failures` is not asked; the record runs again in the next epoch."""
    seen: list[str] = []

    async def wait(entry: Entry) -> None:
        try:
            if entry[EPOCH].number == 1:
                await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append(str(error))
            raise

    made = pool(4, wait)
    first = made.assign()
    made.receive(first, 0, [b"a", b"b", b"a"])
    made.wait(lambda: len(made.started) == 2)
    made.end(first)
    second = made.assign()
    made.receive(second, 0, [b"a", b"b", b"a"])
    made.wait(lambda: made.finished(second) == 3)
    assert len(seen) == 2
    assert all("no longer this member's" in words for words in seen)
    assert made.failed == []
    assert (made.inboxes.tally.stale_records, made.inboxes.tally.returned_records) == (0, 3)


def test_a_handler_that_swallows_its_cancellation_is_stale_and_its_result_dropped(
    pool: Callable[..., Pool],
) -> None:
    """The result is counted as stale; the task takes no other record with the cancellation on it."""
    cancelling: list[int] = []

    async def swallow(entry: Entry) -> None:
        task = asyncio.current_task()
        assert task is not None
        cancelling.append(task.cancelling())
        if entry[EPOCH].number == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

    made = pool(1, swallow)
    first = made.assign()
    made.receive(first, 0, [b"a"])
    made.wait(lambda: made.started)
    made.end(first)
    made.receive(made.assign(), 0, [b"a", b"b"])
    made.wait(lambda: len(made.ended) == 3)
    made.wait(lambda: made.hub.count_finished() == 2)
    assert made.inboxes.tally.stale_records == 1
    assert cancelling == [0, 0, 0]


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_handler_raises_by_itself_goes_to_the_policy(
    pool: Callable[..., Pool], error: type[BaseException]
) -> None:
    """A BaseException of an epoch that lasts is the failures's to decide; a loop is not ended by it."""

    async def fail(_entry: Entry) -> None:
        await asyncio.sleep(0)
        raise error

    made = pool(4, fail)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.failed or made.deaths)
    assert [type(one) for one in made.failed] == [error]
    assert made.deaths == []


def test_a_cancellation_that_a_call_leaves_behind_is_not_the_next_records(pool: Callable[..., Pool]) -> None:
    """It cancels its own task as it returns; the next record of its key waits, and is not cancelled."""

    async def work(entry: Entry) -> None:
        await asyncio.sleep(0)
        if offset_of(entry) == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    made = pool(1, work)
    made.receive(made.assign(), 0, [b"a", b"a", b"b"])
    made.wait(lambda: len(made.ended) == 3)
    assert made.failed == []
