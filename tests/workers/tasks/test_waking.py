"""How records wake tasks, and that none is left lying while one falls asleep."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.workers.rate import Pace
from ehkafka.workers.tasks.tasks import InboxTasks
from tests.workers.tasks.conftest import LIMIT_S, Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Inbox


@pytest.mark.usefixtures("switch_often")
def test_a_record_that_finds_a_task_falling_asleep_is_handled_without_a_watch(
    pool: Callable[..., Pool],
) -> None:
    """20 000 single records to tasks that fall asleep again and again: one wake each is enough."""
    rng, made = random.Random(7), pool(4)
    epoch = made.assign()
    for offset in range(20_000):
        made.receive(epoch, offset, [b"k%d" % rng.randrange(3)])
        for _ in range(rng.randrange(40)):
            pass
        if rng.random() < 0.02:  # the others come while tasks run
            made.wait(lambda offset=offset: len(made.ended) > offset, watch=False)  # type: ignore[misc]
    made.wait(lambda: len(made.ended) == 20_000, watch=False)


def let_one_come_before_the_gate(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let a record come after a task's last look and before it sleeps; tell whether it is left lying."""
    epoch = pool.assign()
    note_idle = pool.hub.note_idle
    came: list[Inbox] = []

    def comes_first(inbox: Inbox) -> None:
        note_idle(inbox)
        if not came:
            came.append(inbox)
            pool.receive(epoch, 1, [b"late"])  # the only idle inbox is this one

    monkeypatch.setattr(pool.hub, "note_idle", comes_first)
    pool.receive(epoch, 0, [b"first"])
    ends_s = time.monotonic() + 1.0
    while len(pool.ended) < 2 and time.monotonic() < ends_s:
        time.sleep(1e-3)
    return len(pool.ended) < 2


def test_a_record_that_comes_before_the_gate_is_out_is_seen_by_the_task_itself(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who brought it found nothing asleep."""
    assert not let_one_come_before_the_gate(pool(1), monkeypatch)


def test_mutant_a_task_falls_asleep_without_a_second_look(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch, mutate: Callable[..., None]
) -> None:
    """Without the look after it has published that it sleeps, the record is left lying."""
    mutate(InboxTasks, "_let_sleep", "has_work = inbox.q and", "has_work = False and")
    assert let_one_come_before_the_gate(pool(1), monkeypatch)


def test_a_task_that_falls_asleep_while_the_hub_closes_leaves(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who closes wakes what sleeps then; what falls asleep looks again."""
    made = pool(1)
    note_idle = made.hub.note_idle

    def closes(inbox: Inbox) -> None:
        note_idle(inbox)
        made.hub.close()

    monkeypatch.setattr(made.hub, "note_idle", closes)
    made.receive(made.assign(), 0, [b"a"])
    made.wait(lambda: made.ended)
    assert made.workers._has_ended.wait(LIMIT_S)


def test_there_is_never_more_than_one_wake_up_on_its_way(
    pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 batches for tasks that sleep, while the loop is busy: it is called once."""
    calls: list[Any] = []
    holds, held = threading.Event(), threading.Event()

    def hold() -> None:
        holds.set()
        assert held.wait(LIMIT_S)

    made = pool(4)
    epoch = made.assign()
    made.receive(epoch, 0, [b"k%d" % n for n in range(8)])
    made.wait(lambda: len(made.ended) == 8)
    loop = made.workers._loop.loop
    loop.call_soon_threadsafe(hold)
    assert holds.wait(LIMIT_S)
    call = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *what: (calls.append(what), call(*what)))
    for offset in range(8, 508):
        made.receive(epoch, offset, [b"k%d" % offset])
    assert len(calls) == 1
    held.set()
    made.wait(lambda: len(made.ended) == 508)


def test_tasks_are_not_woken_for_nothing(pool: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand idle tasks, one record at a time: one inbox is queued for each."""
    made = pool(1_000)
    epoch = made.assign()
    made.receive(epoch, 0, [b"k%d" % n for n in range(1_000)])
    made.wait(lambda: len(made.ended) == 1_000)
    tasks = made.workers._tasks
    assert tasks is not None
    began: list[int] = []
    begin = tasks._begin_tasks
    monkeypatch.setattr(tasks, "_begin_tasks", lambda most: (began.append(len(tasks._queued)), begin(most)))
    for offset in range(1_000, 1_200):
        made.receive(epoch, offset, [b"x"])
        made.wait(lambda offset=offset: len(made.ended) == offset + 1)  # type: ignore[misc]
    # A task that is about to rest may take one without being woken.
    assert 150 < sum(began) <= 200


def test_the_rate_limit_holds_and_wakes_no_task_for_nothing(pool: Callable[..., Pool]) -> None:
    """200 a second from 50 keys on 50 tasks; what waits for a token is not shown, so it may be taken back."""
    made = pool(50, pace=Pace(200.0, time.monotonic))
    began_s = time.monotonic()
    epoch = made.assign()
    made.receive(epoch, 0, [b"k%d" % (n % 50) for n in range(120)])
    made.wait(lambda: len(made.ended) >= 20)
    assert made.hub.busy == 0
    made.wait(lambda: len(made.ended) == 120)
    assert time.monotonic() - began_s >= 100 / 200.0
    made.receive(epoch, 120, [b"k%d" % n for n in range(50)])
    made.wait(lambda: len(made.ended) > 130)
    with made.hub.locked() as inboxes:
        inboxes.ending.drain([epoch], None)
        assert inboxes.ending.is_drained([epoch])
