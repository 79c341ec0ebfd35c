"""Life cycle: stops with and without a drain, deadlines, signals, refusals, dead threads, stuck work."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any

import pytest

import ehkafka
from tests.kit.inside import inside
from tests.kit.unstolen import unstolen_s


@pytest.mark.parametrize("records", ["", "a b c"])
def test_an_idle_app_stops_within_a_second(lab: Any, recorder: Any, wait_for: Any, records: str) -> None:
    """With nothing to do a stop takes less than a second."""
    lab.produce(records)
    app = lab.app(recorder)
    app.start()
    wait_for(lambda: app.snapshot().partitions and recorder.count == len(records.split()))
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 1.0
    assert app.state == "stopped"


def test_an_app_stops_within_a_second_while_it_still_joins(lab: Any, recorder: Any) -> None:
    """Also before the group has given it a partition."""
    app = lab.app(recorder)
    app.start()
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 1.5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_drains_and_the_program_ends_with_0(
    lab: Any, program: Any, wait_for: Any, number: int
) -> None:
    """SIGTERM or SIGINT: with drain="all" what was received is handled and committed, exit code 0."""
    lab.produce("a a a")
    started = program(
        """
        @app.handler("t")
        def slow(record):
            say("begin", record.offset())
            time.sleep(0.3)
            say("end", record.offset())
        run()
        """,
        drain="all",
    )
    wait_for(lambda: started.printed("begin 0"))
    started.signal(number)
    assert started.wait() == 0
    assert [line for line in started.lines if line.startswith("end")] == ["end 0", "end 1", "end 2"]
    assert lab.committed() == 3


def test_the_second_signal_leaves_at_once_and_names_what_is_redelivered(
    lab: Any, program: Any, wait_for: Any
) -> None:
    """Exit code 4 within a second or so, although a handler runs for ever and a drain is on."""
    lab.produce("a stuck b stuck")
    started = program(
        """
        @app.handler("t")
        def handle(record):
            say("begin", record.offset())
            if record.key() == b"stuck":
                threading.Event().wait()
        run()
        """
    )
    wait_for(lambda: started.printed("begin 2") and started.printed("begin 1"))
    started.signal(signal.SIGTERM)
    with pytest.raises(Exception, match="timed out"):
        started.process.wait(0.5)
    began_s = unstolen_s()
    started.signal(signal.SIGTERM)
    assert started.wait() == 4
    assert unstolen_s() - began_s < 2.5
    assert started.printed("ERROR UnfinishedError")
    assert started.printed("t[0]@1 key stuck")
    assert lab.committed() == 1


def test_run_ends_with_1_when_a_handler_fails(lab: Any, program: Any) -> None:
    """The failed record's error ends `run`; nothing at or above it is committed."""
    lab.produce("a b")
    started = program(
        """
        @app.handler("t", workers=1)
        def handle(record):
            if record.offset() == 1:
                raise ValueError("no luck")
        run()
        """
    )
    assert started.wait() == 1
    assert started.printed("ERROR HandlerFailedError")
    assert lab.committed() == 1


def test_after_a_full_run_the_gauges_are_back_to_zero(lab: Any, wait_for: Any) -> None:
    """Backlog and inboxes are empty, and the counters equal what was handled."""
    recorder = lab.recorder()
    for partition in range(4):
        lab.produce(" ".join(f"k{n % 30}" for n in range(500)), topic="t4", partition=partition)
    app = lab.app(recorder, "t4")
    app.start()
    wait_for(lambda: recorder.count == 2000)
    wait_for(lambda: app.snapshot().finished_records == 2000)
    wait_for(lambda: app.snapshot().lag_records == 0)
    snapshot = app.snapshot()
    assert (snapshot.backlog_records, snapshot.lanes) == (0, 0)
    assert sum(p.backlog_bytes for p in snapshot.partitions) == 0
    app.stop()
    inboxes = inside(app).inboxes
    assert (inboxes.tally.backlog_records, inboxes.tally.backlog_bytes) == (0, 0)
    assert all(inbox.is_empty() for inbox in inboxes.all_inboxes())
    assert not inboxes.router.epochs
    assert app.snapshot().received_records == app.snapshot().finished_records == 2000


def test_an_app_can_be_started_again_after_a_stop(lab: Any, recorder: Any, wait_for: Any) -> None:
    """The same object runs twice; a start while it runs is refused."""
    lab.produce("a")
    app = lab.app(recorder)
    app.start()
    with pytest.raises(ehkafka.errors.ConfigurationError, match="running"):
        app.start()
    wait_for(lambda: recorder.count == 1)
    app.stop()
    lab.produce("b")
    app.start()
    wait_for(lambda: recorder.count == 2)
    app.stop()
    assert recorder.offsets() == [0, 1]


def test_stop_is_harmless_before_the_start_and_twice(lab: Any, recorder: Any) -> None:
    """A stopped or never started app stays as it is."""
    app = lab.app(recorder)
    app.stop()
    assert app.state == "new"
    app.start()
    app.stop()
    app.stop()
    assert app.state == "stopped"
    assert app.wait(1.0)


def test_wait_returns_after_a_start_that_failed(lab: Any, recorder: Any) -> None:
    """An app that could not start has ended."""
    app = lab.app(recorder, "missing")
    with pytest.raises(ehkafka.errors.TopicNotFoundError):
        app.start()
    assert app.wait(1.0)


def test_a_fork_after_the_start_is_refused_in_the_child(lab: Any, recorder: Any) -> None:
    """The child has neither threads nor sockets; the message says to start after the fork."""
    app = lab.app(recorder)
    app.start()
    calls = [app.start, app.wait, app.snapshot, app.health, app.keys.blocking, app.producer.flush, app.stop]
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for call in calls:
                with contextlib.suppress(ehkafka.errors.ConfigurationError):
                    call()
                    break
                refused += 1
        finally:
            os._exit(len(calls) - refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    app.stop()
