"""`workers="auto"`: the app finds out how many workers a handler needs, and shows what it found."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.events import HandlerResized, UserCodeFailed
from ehkafka.run import resizing
from ehkafka.workers import auto_size


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


def test_threads_that_sleep_become_more(lab: Any, events: Any, wait_for: Any) -> None:
    """Up to the bound; the snapshot shows it with its bounds, and an event each number that is kept."""
    feed(lab)
    app = lab.app(lambda _record: time.sleep(0.02), workers=ehkafka.Auto(2, 64))
    app.add_hook(events)
    app.start()
    assert workers_of(app) == 16
    wait_for(lambda: workers_of(app) == 64)
    wait_for(lambda: any(event.workers == 64 for event in events.of(HandlerResized)))
    (handler,) = app.snapshot().handlers
    assert handler.workers_auto == (2, 64)
    found = events.of(HandlerResized)
    assert all(event.is_auto for event in found)
    assert [event.workers_before for event in found] == [16, *(event.workers for event in found[:-1])]
    app.stop(drain="running")


def test_tasks_become_more(lab: Any, wait_for: Any) -> None:
    """An `async def` begins with 64."""

    async def handle(_record: Any) -> None:
        await asyncio.sleep(0.1)

    feed(lab)
    app = lab.app(handle, workers="auto")
    app.start()
    assert workers_of(app) == 64
    wait_for(lambda: workers_of(app) >= 128)
    app.stop(drain="running")


def test_what_has_nothing_to_do_stays_as_it_is(lab: Any, recorder: Any, stays: Any, wait_for: Any) -> None:
    """Nothing is tried where no record waits."""
    lab.produce("a b c")
    app = lab.app(recorder, workers="auto")
    app.start()
    wait_for(lambda: lab.committed() == 3)
    stays(lambda: workers_of(app) == 16, for_s=1.0)
    app.stop()


def test_order_holds_while_the_number_changes(lab: Any, wait_for: Any) -> None:
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
    app = lab.app(handle, workers=ehkafka.Auto(1, 48))
    app.start()
    # One worker alone takes 18 s, and what is tried begins with few.
    wait_for(lambda: lab.committed() == records, timeout_s=90)
    app.stop()
    assert not overlaps
    assert sum(map(len, seen.values())) == records
    assert all(offsets == sorted(offsets) for offsets in seen.values())


def test_a_number_that_is_asked_for_ends_the_search(lab: Any, wait_for: Any, stays: Any) -> None:
    """Whoever says a number means it."""
    feed(lab)
    app = lab.app(lambda _record: time.sleep(0.02), workers=ehkafka.Auto(2, 200))
    app.start()
    wait_for(lambda: workers_of(app) > 16)
    app.resize("<lambda>", workers=3)
    stays(lambda: workers_of(app) == 3, for_s=1.5)
    app.stop(drain="running")


def test_a_set_up_that_fails_ends_the_search(lab: Any, events: Any, wait_for: Any, stays: Any) -> None:
    """It is reported once, and those that work go on."""
    feed(lab)
    started: list[str] = []

    def set_up() -> None:
        if len(started) >= 16:
            raise ConnectionError("no connection left")
        started.append(threading.current_thread().name)

    app = lab.app(lambda _record: time.sleep(0.02), workers="auto")
    app.on_worker_start(set_up)
    app.add_hook(events)
    app.start()
    wait_for(lambda: events.of(UserCodeFailed))
    stays(lambda: workers_of(app) == 16, for_s=1.0)
    assert len(events.of(UserCodeFailed)) == 1
    before = app.snapshot().finished_records
    wait_for(lambda: app.snapshot().finished_records > before)
    app.stop(drain="running")


def test_no_thread_is_left_and_none_is_there_without_auto(lab: Any, recorder: Any, wait_for: Any) -> None:
    """The thread that looks ends with the app."""

    def lookers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "ehkafka-auto"]

    app = lab.app(recorder, workers=2)
    app.start()
    assert not lookers()
    app.stop()
    app = lab.app(recorder, workers="auto")
    app.start()
    assert lookers()
    app.stop()
    wait_for(lambda: not lookers())


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ("many", ["'many'", '"auto"', "from 1 to 10000"]),
        (0, ["workers=0"]),
    ],
)
def test_what_is_no_number_is_refused(workers: Any, words: list[str]) -> None:
    """With what there is."""
    app = ehkafka.App(group="g", start="earliest")
    with pytest.raises(ConfigurationError) as caught:
        app.handler("t", workers=workers)(lambda _record: None)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ehkafka.Auto(0), "workers_min=0"),
        (lambda: ehkafka.Auto(2, 1), "below the least"),
        (lambda: ehkafka.Auto(workers_max=2.5), "workers_max=2.5"),  # type: ignore[arg-type]
        (lambda: ehkafka.Auto(workers_max=True), "workers_max=True"),
        (lambda: ehkafka.Auto(None), "workers_min=None"),  # type: ignore[arg-type]
        (lambda: ehkafka.Auto(1_000_000), "from 1 to 100000"),
    ],
)
def test_bounds_that_cannot_be_are_refused(make: Any, words: str) -> None:
    """Where they are written."""
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        make()


def test_more_threads_than_a_process_bears_are_refused() -> None:
    """As with a number."""
    app = ehkafka.App(group="g", start="earliest")
    with pytest.raises(ConfigurationError, match=r"a number from 1 to 10000, .* a workers_max up to that"):
        app.handler("t", workers=ehkafka.Auto(1, 20_000))(lambda _record: None)


def test_batches_have_a_number() -> None:
    """The error says why."""
    app = ehkafka.App(group="g", start="earliest")
    with pytest.raises(ConfigurationError, match="a batch grows with what waits"):
        app.batch_handler("t", workers="auto")(lambda _batch: None)  # type: ignore[arg-type]
