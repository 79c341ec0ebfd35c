"""`advance` moves the one clock of an app in a test: what waits for a time comes at once."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.testing import run
from tests.testing.in_test.in_test_handlers import sleep_long

# All of these would take much longer by the real clock.
HOUR_S = 3600.0


def _app(**options: Any) -> ehkafka.App:
    return ehkafka.App(group="g", start="earliest", **options)


def test_retries_come_one_after_the_other_within_one_advance() -> None:
    """Each at its own time: after 10, 20 and 40 minutes."""
    app, times = _app(), []

    @app.handler("a", retry=ehkafka.Retry(attempts=4, first_s=600.0, max_s=HOUR_S, jitter=0.0))
    def fail(record: ehkafka.Record) -> None:
        times.append(record.attempt)
        if record.attempt < 4:
            raise ValueError("not yet")

    with run(app) as t:
        t.send("a", "x", key="k")
        t.advance(590.0)
        assert times == [1]
        t.advance(20.0)
        assert times == [1, 2]
        t.advance(2 * HOUR_S)
        assert times == [1, 2, 3, 4]
        t.wait()
        assert [one.attempt for one in t.handled] == [4]


def test_the_clock_waits_for_what_is_still_on_its_way_to_the_lanes() -> None:
    """The poll thread has a record and still reads its key: first comes its attempt, then the time."""
    app, times = _app(), []

    def slow_key(record: ehkafka.Record) -> object:
        time.sleep(0.3)
        return record.key()

    retry = ehkafka.Retry(attempts=2, first_s=600.0, max_s=HOUR_S, jitter=0.0)

    @app.handler("a", order_by=slow_key, retry=retry)
    def fail(record: ehkafka.Record) -> None:
        times.append(record.attempt)
        if record.attempt < 2:
            raise ValueError("not yet")

    with run(app) as t:
        t.send("a", "x", key="k")
        t.advance(700.0)
        assert times == [1, 2]


def test_a_deferral_passes_its_deadline_also_when_the_clock_was_moved_before() -> None:
    """The deadline counts from the call of `defer`."""
    app, tokens = _app(), []

    @app.handler("a", on_failure=ehkafka.Skip())
    def hold(record: ehkafka.Record) -> None:
        tokens.append(record.defer(deadline_s=600.0))

    with run(app) as t:
        t.advance(HOUR_S)
        t.send("a", "x", key="k")
        t.advance(500.0)
        assert tokens[0].is_open
        t.advance(200.0)
        t.wait()
        assert not tokens[0].is_open
        assert len(t.skipped) == 1


def test_an_async_handler_passes_its_deadline_and_sleeps_by_the_clock() -> None:
    """A coroutine is cancelled at its deadline; one that sleeps less than that goes on."""
    app, calls = _app(), []

    @app.handler("a", deadline_s=600.0, on_failure=ehkafka.Skip())
    async def sleep(record: ehkafka.Record) -> None:
        calls.append("begun")
        await asyncio.sleep(float(record.value() or b""))
        calls.append("slept")

    with run(app) as t:
        t.send("a", "60", key="k")
        t.advance(61.0)
        t.wait()
        assert calls == ["begun", "slept"]
        t.send("a", str(HOUR_S), key="k")
        t.advance(601.0)
        t.wait()
        assert calls == ["begun", "slept", "begun"]
        assert len(t.skipped) == 1


def test_a_process_is_killed_at_its_records_deadline() -> None:
    """The attempt has failed."""
    app = _app()
    app.handler("a", workers=ehkafka.Processes(1), deadline_s=600.0, on_failure=ehkafka.Skip())(sleep_long)
    with run(app) as t:
        t.send("a", "x", key="k")
        t.advance(601.0)
        t.wait(30)
        assert len(t.skipped) == 1


def test_a_batch_goes_when_its_time_is_over() -> None:
    """Though it is not full."""
    app, sizes = _app(), []

    @app.batch_handler("a", batch_records_max=100, wait_s_max=600.0)
    def store(batch: ehkafka.Batch) -> None:
        sizes.append(len(batch))

    with run(app, partitions=1) as t:
        for number in range(3):
            t.send("a", str(number), key="k")
        t.advance(590.0)
        assert sizes == []
        t.advance(20.0)
        t.wait()
        assert sizes == [3]


def test_a_rate_limit_goes_by_the_clock() -> None:
    """Ten an hour: one at first and one for each six minutes."""
    app, seen = _app(), []

    @app.handler("a", rate_limit=10 / HOUR_S)
    def slow(record: ehkafka.Record) -> None:
        seen.append(record.offset())

    with run(app, partitions=1) as t:
        for number in range(12):
            t.send("a", str(number), key="k")
        t.advance(0.0)
        assert len(seen) == 1
        t.advance(365.0)
        assert len(seen) == 2
        t.advance(HOUR_S)
        assert len(seen) == 12
        t.wait()


def test_commits_follow_their_interval() -> None:
    """One of an hour is not made before."""
    app = _app()
    app.handler("a")(lambda record: None)
    with run(app, partitions=1, commit_interval_s=HOUR_S) as t:
        t.send("a", "x", key="k")
        t.advance(HOUR_S + 1)  # the first one is due at once
        t.wait()
        t.send("a", "x", key="k")
        t.advance(1.0)
        assert app.snapshot().partitions[0].committed == 1
        t.advance(HOUR_S)
        t.wait()
        assert app.snapshot().partitions[0].committed == 2


def test_a_record_is_too_old_by_the_same_clock() -> None:
    """`max_age` goes by the wall clock, which is moved as well."""
    app = _app(max_age=timedelta(hours=1))
    app.handler("a")(lambda record: None)
    with run(app, partitions=1) as t:
        t.advance(2 * HOUR_S)
        t.send("a", "old", key="k")
        t.send("a", "young", key="k", timestamp=int((time.time() + 2 * HOUR_S) * 1000))
        t.wait()
        assert [one.value for one in t.handled] == ["young"]


def test_an_idle_partition_is_idle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`on_idle` is called after `idle_s` of this clock, however rarely an app at rest looks at its logs."""
    monkeypatch.setattr("ehkafka.intake.poll_wait.REST_CHECK_S", 60.0)
    app, idle = _app(idle_s=600.0, unreachable_s=600.0), threading.Event()
    app.handler("a")(lambda record: None)
    app.on_idle(lambda partition: idle.set())
    with run(app, partitions=1) as t:
        t.send("a", "x", key="k")
        t.wait()
        time.sleep(3.0)
        assert not idle.is_set()
        t.advance(598.0)
        assert idle.wait(5.0)


def test_the_stop_has_its_time_by_the_clock() -> None:
    """A handler that hangs is left when `stop_s` is over."""
    app, gate = _app(stop_s=600.0), threading.Event()

    @app.handler("a")
    def hang(record: ehkafka.Record) -> None:
        gate.wait(60)

    with run(app, partitions=1) as t:
        t.send("a", "x", key="k")
        t.advance(0.0)
        failures: list[BaseException] = []

        def stop() -> None:
            try:
                app.stop()
            except ehkafka.EhkafkaError as failure:
                failures.append(failure)

        stopping = threading.Thread(target=stop)
        stopping.start()
        while app.state == "running":
            time.sleep(0.01)
        t.advance(601.0)
        stopping.join(15.0)
        assert not stopping.is_alive()
        assert "a[0]@0" in str(failures[0])
        gate.set()


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "5", None, True, 1e10, 10**400])
def test_a_clock_does_not_go_back(seconds: Any) -> None:
    """What is no time is refused, and so is one that the app could not count by any more."""
    app = _app()
    app.handler("a")(lambda record: None)
    with run(app) as t:
        with pytest.raises(ConfigurationError, match="advance"):
            t.advance(seconds)
        t.send("a", "x")
        t.wait()
