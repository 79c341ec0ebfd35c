"""How a run ends: what is raised, what the event says and what health says agree."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import AppStopped
from ehkafka.records import TopicPartition
from ehkafka.run.observation import commit_problem
from ehkafka.testing import ApiKey

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


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


def test_run_raises_what_ended_it_though_another_threads_stop_was_quicker(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """Else a program whose handler failed would end with code 0."""
    recorder.fail_at(0)
    app = lab.app(recorder)
    stopping = threading.Event()

    @app.on_stop
    def wait_in_the_stop() -> None:
        # The thread of `run` comes to its own end only now, and finds that nothing is left to do.
        stopping.set()
        time.sleep(1.0)

    raised: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except ehkafka.EhkafkaError as error:
            raised.append(error)

    running = threading.Thread(target=run)
    running.start()
    wait_for(lambda: app.state == "running")
    # Holds the lock that both need at the end, so that `stop` is not late.
    with app._life.lock:
        lab.produce("a")
        assert app.current_run.wait(15.0)
        with pytest.raises(ehkafka.errors.HandlerFailedError):
            app.stop()
    assert stopping.is_set()
    running.join(15.0)
    assert [type(error) for error in raised] == [ehkafka.errors.HandlerFailedError]


def test_a_handler_that_fails_in_the_drain_of_a_stop_is_the_runs_error(
    lab: Any, recorder: Any, events: Any, wait_for: Any
) -> None:
    """It came after the stop had begun, and before its end."""
    gate = recorder.block()
    recorder.fail_at(0)
    app = lab.app(recorder)
    app.add_hook(events)
    app.start()
    lab.produce("a")
    wait_for(lambda: recorder.started)
    opening = threading.Timer(0.3, gate.set)
    opening.start()
    assert ended(app, events) == (1, 1)
    opening.join()


def test_a_hook_that_exits_at_the_stop_is_the_runs_error(lab: Any, events: Any, wait_for: Any) -> None:
    """SystemExit in on_revoked: an ending that nobody asked for."""

    def leave(_partition: Any, _reason: str) -> None:
        raise SystemExit(3)

    app = lab.app(lambda _record: None)
    app.on_revoked(leave)
    app.add_hook(events)
    app.start()
    lab.produce("a")
    wait_for(lambda: lab.committed() == 1)
    assert ended(app, events) == (1, 1)


def test_a_stop_that_breaks_is_reported_as_what_it_is(
    lab: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own defect, by its code: there was no such event at all."""
    app = lab.app(lambda _record: None)
    app.add_hook(events)
    app.start()

    def broken(*_: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("ehkafka.run.shutdown.report_stale", broken)
    assert ended(app, events) == (70, 70)


def test_the_first_of_two_errors_counts_everywhere(
    lab: Any, recorder: Any, events: Any, wait_for: Any
) -> None:
    """A handler's error ends the run, and the last commit fails, too."""
    gate = recorder.block(b"bad")
    recorder.fail_at(1)
    app = lab.app(recorder, commit_interval_s=60.0, stop_s=1.0)
    app.add_hook(events)
    app.start()
    lab.produce("a bad")
    wait_for(lambda: recorder.count == 1)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.INVALID_COMMIT_OFFSET_SIZE] * 1_000)
    gate.set()
    assert app.wait(15.0)
    assert ended(app, events) == (1, 1)


def test_what_fails_after_the_end_changes_nothing_any_more(lab: Any, events: Any, wait_for: Any) -> None:
    """A hook that was left behind: what was reported and raised stays true."""
    gate = threading.Event()

    def leave_late(_partition: Any, _reason: str) -> None:
        gate.wait(20.0)
        raise SystemExit(3)

    app = lab.app(lambda _record: None)
    app.on_revoked(leave_late)
    app.add_hook(events)
    app.start()
    lab.produce("a")
    wait_for(lambda: lab.committed() == 1)
    app.current_run.ending.request_stop("test", timeout_s=0.2)
    assert app.wait(15.0)
    gate.set()
    wait_for(lambda: not any(t.name.startswith("ehkafka-hooks") for t in threading.enumerate()))
    assert ended(app, events) == (0, 0)
    assert app.current_run.failure is None


def test_connection_problem_ends_with_the_next_record(lab: Any, wait_for: Any) -> None:
    """It was red for 15 s after the last refusal of a key that was rotated."""
    app = lab.app(lambda _record: None)
    app.start()
    lab.produce("a")
    wait_for(lambda: lab.committed() == 1)
    app.current_run.connection.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    noted_s = time.monotonic()
    assert "_AUTHENTICATION" in app.health().reasons[0]
    while not app.health().ok and time.monotonic() - noted_s < 30.0:
        lab.produce("a")
        time.sleep(0.2)
    assert time.monotonic() - noted_s < 10.0
    app.stop()


def test_connection_problem_of_an_idle_app_ends_with_an_answer(lab: Any, wait_for: Any) -> None:
    """Nothing is produced and nothing changes, so the app sends a position again: the answer is the proof."""
    app = lab.app(lambda _record: None)
    app.start()
    lab.produce("a")
    wait_for(lambda: lab.committed() == 1)
    for _ in range(2):  # the next refusal begins it anew
        app.current_run.connection.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))
        noted_s = time.monotonic()
        assert "_AUTHENTICATION" in app.health().reasons[0]
        wait_for(lambda: app.health().ok)
        assert time.monotonic() - noted_s < 10.0
    assert lab.committed() == 1
    app.stop()


def test_a_failed_commit_is_no_problem_once_its_partition_is_anothers() -> None:
    """Nothing of ours would ever be acknowledged to end it; an ended run keeps its last words."""
    committer = SimpleNamespace(problem="no coordinator", failed_partitions=frozenset({P0}))
    ending = SimpleNamespace(is_done=False)
    runtime: Any = SimpleNamespace(context=SimpleNamespace(committer=committer, owned={P0: 1}), ending=ending)
    assert commit_problem(runtime) == "no coordinator"
    runtime.context.owned = {P1: 1}
    assert commit_problem(runtime) is None
    ending.is_done = True
    assert commit_problem(runtime) == "no coordinator"
