"""How a run ends: by signals, by errors; what is raised, reported and shown agrees."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.errors import HandlerFailedError
from ehkafka.events import (
    AppStopped,
)
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_drains_and_the_program_ends_with_0(lab: Any, program: Any, number: int) -> None:
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
    # A busy machine may hand the records over one by one: by then the last one has been received.
    wait_until(lambda: started.printed("begin 1"))
    started.signal(number)
    assert started.wait() == 0
    assert [line for line in started.lines if line.startswith("end")] == ["end 0", "end 1", "end 2"]
    assert lab.committed() == 3


def test_the_second_signal_leaves_at_once_and_names_what_is_redelivered(lab: Any, program: Any) -> None:
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
    wait_until(lambda: started.printed("begin 2") and started.printed("begin 1"))
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


# --- what is raised, reported and shown agrees ---


def ended(app: Any, events: Any) -> tuple[int, int]:
    """Stop; return the exit code of what was raised, and the one that was reported."""
    raised = 0
    try:
        app.stop()
    except ehkafka.EhkafkaError as error:
        raised = error.exit_code
    (stopped,) = events.of(AppStopped)
    assert events[-1] is stopped, "FACT: nothing is reported after the end"
    return raised, stopped.exit_code


def test_run_raises_what_ended_it_though_another_threads_stop_was_quicker(lab: Any, recorder: Any) -> None:
    """Else a program whose handler failed would end with code 0."""
    recorder.fail_at(0)
    app = lab.app(recorder)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except ehkafka.EhkafkaError as error:
            raised.append(error)

    running = threading.Thread(target=run)
    running.start()
    wait_until(lambda: app.state == "running")
    # Holds the lock that both need at the end, so that `stop` is not late.
    with app._life.lock:
        lab.produce("a")
        ends_with(app, HandlerFailedError)
    running.join(15.0)
    assert [type(error) for error in raised] == [HandlerFailedError]


def test_a_handler_that_fails_in_the_drain_of_a_stop_is_the_runs_error(
    lab: Any, recorder: Any, events: Any
) -> None:
    """It came after the stop had begun, and before its end."""
    gate = recorder.block()
    recorder.fail_at(0)
    app = lab.start(recorder)
    lab.produce("a")
    wait_until(lambda: recorder.started)
    threading.Timer(0.3, gate.set).start()
    assert ended(app, events) == (1, 1)


def test_a_hook_that_exits_at_the_stop_is_the_runs_error(lab: Any, events: Any) -> None:
    """SystemExit in on_revoked: an ending that was not asked for."""

    def leave(_partition: Any, _reason: str) -> None:
        raise SystemExit(3)

    app = lab.app(lambda _record: None)
    app.on_revoked(leave)
    app.start()
    lab.produce("a")
    wait_until(lambda: lab.committed() == 1)
    assert ended(app, events) == (1, 1)


def test_a_stop_that_breaks_is_reported_as_what_it_is(
    lab: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own defect, by its code: there was no such event at all."""
    app = lab.start(lambda _record: None)

    def broken(*_: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("ehkafka.run.shutdown.report_stale", broken)
    assert ended(app, events) == (70, 70)


def test_the_first_of_two_errors_counts_everywhere(lab: Any, recorder: Any, events: Any) -> None:
    """A handler's error ends the run, and the last commit fails, too."""
    gate = recorder.block(b"bad")
    recorder.fail_at(1)
    app = lab.start(recorder, commit_interval_s=60.0, stop_s=1.0)
    lab.produce("a bad")
    wait_until(lambda: recorder.count == 1)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.INVALID_COMMIT_OFFSET_SIZE] * 1_000)
    gate.set()
    assert app.wait(15.0)
    assert ended(app, events) == (1, 1)


def test_what_fails_after_the_end_changes_nothing_any_more(lab: Any, events: Any) -> None:
    """A hook that was left behind: what was reported and raised stays true."""
    gate = threading.Event()

    def leave_late(_partition: Any, _reason: str) -> None:
        gate.wait(20.0)
        raise SystemExit(3)

    app = lab.app(lambda record: app.stop(timeout_s=0.2))
    app.on_revoked(leave_late)
    app.start()
    lab.produce("a")
    assert app.wait(15.0)
    gate.set()
    wait_until(lambda: not any(t.name.startswith("ehkafka-hooks") for t in threading.enumerate()))
    assert ended(app, events) == (0, 0)
    assert app.health().reasons == ("The app is stopped.",)
