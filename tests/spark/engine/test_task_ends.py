"""How one task of the engine ends when it fails, without a JVM: what is closed, reported, and left behind."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import EhkafkaError, HandlerFailedError

if TYPE_CHECKING:
    import ehkafka


def test_what_outlives_a_failed_task_is_named(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A thread, or the answer to a deferred record, that is still awaited after `stop_s` is left behind."""
    app, go, started = lab.make_app(stop_s=0.1), threading.Event(), threading.Barrier(3)

    @app.handler("t", workers=4)
    def handle(record: ehkafka.Record) -> None:
        if record.key() == b"k1":
            started.wait(60.0)
            go.wait(60.0)
        elif record.key() == b"k2":
            record.defer()
            started.wait(60.0)
        elif record.key() == b"k3":
            started.wait(60.0)
            raise LookupError

    log = lab.log_of(4)
    work = lab.task_of(app, log)
    with caplog.at_level("WARNING", "ehkafka"), pytest.raises(HandlerFailedError):
        work.run(lab.as_batches(log))
    go.set()
    assert len(work.still_running) == 2
    assert work.still_running[0].startswith("ehkafka-handle-")
    assert work.still_running[1] == "1 deferred records"
    assert "ehkafka-handle-" in caplog.text


def test_a_task_that_ends_well_leaves_nothing_behind(lab: Any) -> None:
    """Its process may take the next one."""
    app = lab.make_app()
    app.handler("t", workers=4)(lambda record: None)
    log = lab.log_of(20)
    work = lab.task_of(app, log)
    work.run(lab.as_batches(log))
    assert work.still_running == ()


def test_an_async_call_that_hangs_is_cancelled(lab: Any) -> None:
    """What awaits for ever when a task fails is waited for within `stop_s`, then cancelled."""
    app, reported = lab.make_app(stop_s=0.1), []
    waits = threading.Event()

    @app.handler("t", workers=4)
    async def handle(record: ehkafka.Record) -> None:
        if record.key() == b"k0":
            waits.set()
            try:
                await asyncio.sleep(60.0)
            finally:
                reported.append("cancelled")
        await asyncio.to_thread(waits.wait, 60.0)
        raise LookupError

    log = lab.log_of(2)
    work = lab.task_of(app, log)
    with pytest.raises(HandlerFailedError):
        work.run(lab.as_batches(log))
    assert reported == ["cancelled"]
    assert work.still_running == ()


def test_the_error_advises_what_spark_can_do(lab: Any) -> None:
    """The whole batch is handled again, and Hold() is no way out on Spark."""
    app = lab.make_app()

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        raise LookupError

    with pytest.raises(HandlerFailedError) as caught:
        lab.run_task(app, lab.log_of(1))
    assert "Nothing of its batch was committed; all of it is handled again at the next start" in str(
        caught.value
    )
    assert "on_failure=Skip() or DeadLetter(…)." in str(caught.value)
    assert "Hold" not in str(caught.value)


@pytest.mark.parametrize(
    ("where", "named"),
    [
        (
            "on_worker_start",
            r"on_worker_start failed for handler 'Homes'.*SystemExit: no client.*Fix the hook",
        ),
        ("open", r"Opening t\[0\] failed in handler 'Homes': SystemExit: no client"),
    ],
)
def test_what_fails_before_any_record_is_named(lab: Any, where: str, named: str) -> None:
    """What a worker's hook or a class's open() raises, or its sys.exit(), is the task's error."""
    app = lab.make_app()

    def fail(*_partition: object) -> None:
        sys.exit("no client")

    @app.handler("t")
    class Homes:
        def open(self, partition: ehkafka.TopicPartition) -> None:
            if where == "open":
                fail()

        def process(self, record: ehkafka.Record) -> None:
            pytest.fail("a record was handled")

    if where == "on_worker_start":
        app.on_worker_start(fail)
    with pytest.raises(EhkafkaError, match=named):
        lab.run_task(app, lab.log_of(1))


def test_what_was_opened_is_closed_when_a_later_partition_cannot_be(lab: Any) -> None:
    """An instance that a failed task has opened is closed; hooks hear of what they know alone."""
    app, reported = lab.make_app(), []
    app.on_revoked(lambda partition, reason: reported.append(f"revoked {partition}"))

    @app.on_assigned
    def assigned(partition: ehkafka.TopicPartition) -> None:
        if partition.partition == 1:
            raise OSError("no room")

    @app.handler("t")
    class Homes:
        def process(self, record: ehkafka.Record) -> None:
            pytest.fail("a record was handled")

        def close(self, reason: str) -> None:
            reported.append(f"closed {reason}")

    with pytest.raises(EhkafkaError, match=r"on_assigned failed for t\[1\]: OSError: no room"):
        lab.run_task(app, lab.log_of(3), lab.log_of(3, partition=1))
    assert reported == ["closed stopped", "revoked t[0]"]


def test_deadlines_are_watched_while_the_broker_gives_nothing(lab: Any) -> None:
    """A reading that waits gives empty lists, and with each of them the task looks at its handlers."""
    app, go = lab.make_app(stop_s=0.1), threading.Event()

    @app.handler("t", workers=2, deadline_s=0.05)
    def handle(record: ehkafka.Record) -> None:
        go.wait(60.0)

    log = lab.log_of(2)

    def waits() -> Any:
        yield lab.piece_of(log), log[:1]
        for _ in range(4_000):
            time.sleep(0.01)
            yield lab.piece_of(log), []
        pytest.fail("no thread looked")

    work = lab.task_of(app, log)
    with pytest.raises(HandlerFailedError, match="has been busy"):
        work.run(waits())
    go.set()


def test_a_task_in_which_nothing_finishes_is_reported(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    """H: a handler that hangs without a deadline is in the executor's log, with its record and stack."""
    app, go = lab.make_app(stuck_s=0.1), threading.Event()

    @app.handler("t", workers=1)
    def handle(record: ehkafka.Record) -> None:
        go.wait(60.0)

    def release() -> Any:
        yield lab.piece_of(log), log
        while "No record finished" not in caplog.text:
            time.sleep(0.01)
            yield lab.piece_of(log), []
        go.set()

    log = lab.log_of(2, keys=2)
    with caplog.at_level("ERROR", "ehkafka"):
        (result,) = lab.task_of(app, log).run(release())
    assert result.finished == 2
    assert "t[0]@0 key k0" in caplog.text
    assert "go.wait(60.0)" in caplog.text
