"""`workers="auto"`: the app finds out how many workers a handler needs, and shows what it found."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import HandlerResized, UserCodeFailed
from ehkafka.run import resizing
from ehkafka.workers import auto_size
from tests.kit.waiting import must_stay, wait_until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try takes tenths of a second."""
    monkeypatch.setattr(resizing, "CHECK_S", 0.05)
    monkeypatch.setattr(auto_size, "SETTLE_S", 0.1)
    monkeypatch.setattr(auto_size, "WINDOW_S", 0.3)


def workers_of(app: ehkafka.App) -> int:
    """Return how many workers the app's one handler has."""
    (handler,) = app.snapshot().handlers
    return handler.workers


def feed(lab: Any, records: int = 20_000) -> None:
    """Produce as many records of as many keys."""
    lab.produce(" ".join(f"key{number}" for number in range(records)))


def test_threads_that_sleep_become_more(lab: Any, events: Any) -> None:
    """Up to the bound; the snapshot shows it with its bounds, and an event each number that is kept."""
    feed(lab)
    app = lab.start(lambda _record: time.sleep(0.02), workers=ehkafka.Auto(2, 64))
    assert workers_of(app) == 16
    wait_until(lambda: workers_of(app) == 64)
    wait_until(lambda: any(event.workers == 64 for event in events.of(HandlerResized)))
    (handler,) = app.snapshot().handlers
    assert handler.workers_auto == (2, 64)
    found = events.of(HandlerResized)
    assert all(event.is_auto for event in found)
    assert [event.workers_before for event in found] == [16, *(event.workers for event in found[:-1])]
    app.stop(drain="running")


def test_tasks_become_more(lab: Any) -> None:
    """An `async def` begins with 64."""

    async def handle(_record: Any) -> None:
        await asyncio.sleep(0.1)

    feed(lab)
    app = lab.start(handle, workers="auto")
    assert workers_of(app) == 64
    wait_until(lambda: workers_of(app) >= 128)
    app.stop(drain="running")


def test_what_has_nothing_to_do_stays_as_it_is(lab: Any, recorder: Any) -> None:
    """Nothing is tried where no record waits."""
    lab.produce("a b c")
    app = lab.start(recorder, workers="auto")
    wait_until(lambda: lab.committed() == 3)
    must_stay(lambda: workers_of(app) == 16, for_s=1.0)


def test_order_holds_while_the_number_changes(lab: Any) -> None:
    """Each key's records, one after another, whatever is tried."""
    seen: dict[bytes, list[int]] = {}
    running: set[bytes] = set()
    overlaps: list[bytes] = []

    def handle(record: ehkafka.Record) -> None:
        key = record.key()
        assert key is not None
        if key in running:
            overlaps.append(key)
        running.add(key)
        time.sleep(0.003)
        seen.setdefault(key, []).append(record.offset())
        running.discard(key)

    records = 6_000
    lab.produce(" ".join(f"key{number % 300}" for number in range(records)))
    app = lab.start(handle, workers=ehkafka.Auto(1, 48))
    # One worker alone takes 18 s, and what is tried begins with few.
    wait_until(lambda: lab.committed() == records, timeout_s=90)
    app.stop()
    assert not overlaps
    assert sum(map(len, seen.values())) == records
    assert all(offsets == sorted(offsets) for offsets in seen.values())


def test_a_number_that_is_asked_for_ends_the_search(lab: Any) -> None:
    """Whoever says a number means it."""
    feed(lab)
    app = lab.start(lambda _record: time.sleep(0.02), workers=ehkafka.Auto(2, 200))
    wait_until(lambda: workers_of(app) > 16)
    app.resize("<lambda>", workers=3)
    must_stay(lambda: workers_of(app) == 3, for_s=1.5)
    app.stop(drain="running")


def test_a_set_up_that_fails_ends_the_search(lab: Any, events: Any) -> None:
    """It is reported once, and those that work go on."""
    feed(lab)
    started: list[str] = []

    def set_up() -> None:
        if len(started) >= 16:
            raise ConnectionError("no connection left")
        started.append(threading.current_thread().name)

    app = lab.app(lambda _record: time.sleep(0.02), workers="auto")
    app.on_worker_start(set_up)
    app.start()
    wait_until(lambda: events.of(UserCodeFailed))
    must_stay(lambda: workers_of(app) == 16, for_s=1.0)
    assert len(events.of(UserCodeFailed)) == 1
    before = app.snapshot().finished_records
    wait_until(lambda: app.snapshot().finished_records > before)
    app.stop(drain="running")


def test_no_thread_is_left_and_none_is_there_without_auto(lab: Any, recorder: Any) -> None:
    """The thread that looks ends with the app."""

    def lookers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "ehkafka-auto"]

    app = lab.start(recorder, workers=2)
    assert not lookers()
    app.stop()
    app = lab.start(recorder, workers="auto")
    assert lookers()
    app.stop()
    wait_until(lambda: not lookers())
