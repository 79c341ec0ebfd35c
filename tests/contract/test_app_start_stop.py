"""Starts that fail and stops in all their ways: pools, threads, deadlines, and what the last words say."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import AppStopped, AppStopping, CommitFailed, UserCodeLeft
from ehkafka.run import reach
from ehkafka.testing import ApiKey
from tests.kit.inside import inside


def test_on_stop_functions_run_all_though_one_of_them_raises(lab: Any, recorder: Any) -> None:
    """The other pools are closed too, and what was raised is raised."""
    seen: list[str] = []
    app = lab.app(recorder)
    app.on_stop(lambda: seen.append("first pool"))

    @app.on_stop
    def broken() -> None:
        raise ValueError("second pool")

    app.start()
    with pytest.raises(ValueError, match="second pool"):
        app.stop()
    assert seen == ["first pool"]
    assert app.state == "stopped"


def test_no_pool_is_opened_while_the_broker_cannot_be_reached(lab: Any, recorder: Any) -> None:
    """A wrong address fails before the on_start functions: nothing is left to close."""
    seen: list[str] = []
    app = lab.app(recorder, connect_s=0.5, endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"))
    app.on_start(lambda: seen.append("opened"))
    app.on_stop(lambda: seen.append("closed"))
    with pytest.raises(ehkafka.errors.EndpointError):
        app.start()
    assert seen == []


def test_pools_and_parts_are_closed_again_when_the_workers_cannot_start(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """on_stop runs when a start fails after on_start; neither the client nor the outputs' thread is left."""
    seen: list[str] = []
    opened: list[Any] = []
    open_consumer = reach.open_consumer
    monkeypatch.setattr(
        reach, "open_consumer", lambda *of, **by: opened.append(open_consumer(*of, **by)) or opened[-1]
    )
    app = lab.app()
    app.handler("t", to="t4")(recorder)
    app.on_start(lambda: seen.append("opened"))
    app.on_stop(lambda: seen.append("closed"))

    @app.on_worker_start
    def fail() -> None:
        raise ValueError("no connection")

    with pytest.raises(ValueError, match="no connection"):
        app.start()
    assert seen == ["opened", "closed"]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        opened[0].consume(1, 0.0)


def test_a_system_without_threads_to_give_is_reported_as_it_is(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's own words come out, not what the undoing of a half start stumbles over."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "ehkafka-Recorder-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    app = lab.app(recorder, workers=4)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        app.start()


def test_an_app_that_ended_by_itself_wants_to_be_stopped_before_it_starts_again(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """The message says so: stop() tells why it ended, and then the app starts anew."""
    recorder.fail_at(0)
    lab.produce("a")
    app = lab.app(recorder)
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"ended by itself; call stop\(\)"):
        app.start()
    with pytest.raises(ehkafka.errors.HandlerFailedError):
        app.stop()
    recorder.work = None
    app.start()
    wait_for(lambda: recorder.finished_offsets() == [0])
    app.stop()


def test_a_later_stop_waits_for_the_request_that_counts(lab: Any, recorder: Any, wait_for: Any) -> None:
    """The first request has 30 s: a second one with no time of its own waits for it all the same."""
    gate = recorder.block()
    lab.produce("a")
    app = lab.app(recorder, stop_s=30.0)
    app.start()
    wait_for(lambda: recorder.started)
    first = threading.Thread(target=app.stop)
    first.start()
    wait_for(lambda: app.state == "stopping")
    opening = threading.Timer(0.3, gate.set)
    opening.start()
    app.current_run.wait_limits_s = []
    wait = app.current_run.wait

    def note(timeout_s: float) -> bool:
        app.current_run.wait_limits_s.append(timeout_s)
        return bool(wait(timeout_s))

    app.current_run.wait = note
    app.stop(timeout_s=0.0)
    first.join(10.0)
    opening.join()
    assert app.current_run.wait_limits_s[0] > 25.0
    assert lab.committed() == 1


def test_a_stop_gives_tear_downs_the_time_that_was_asked_for(lab: Any, recorder: Any, events: Any) -> None:
    """A worker's tear-down may take as long as the stop; on_stop comes after it."""
    seen: list[str] = []
    app = lab.app(recorder, workers=1)
    app.add_hook(events)
    opened = threading.Event()

    @app.on_worker_stop
    def close() -> None:
        assert opened.wait(10.0)
        seen.append("worker")

    app.on_stop(lambda: seen.append("app"))
    app.start()
    stopping = threading.Thread(target=app.stop)
    stopping.start()
    stopping.join(1.5)  # longer than what is left after a deadline
    opened.set()
    stopping.join(10.0)
    assert seen == ["worker", "app"]
    assert events.of(UserCodeLeft) == []


def test_a_tear_down_that_outlives_the_stop_is_named(lab: Any, recorder: Any, events: Any) -> None:
    """It is left behind at the deadline and an event says so."""
    app = lab.app(recorder, workers=1, stop_s=0.2)
    app.add_hook(events)
    gate = threading.Event()
    app.on_worker_stop(lambda: gate.wait(20.0))
    app.start()
    app.stop()
    gate.set()
    assert [event.running for event in events.of(UserCodeLeft)] == [("ehkafka-Recorder-0",)]


def test_the_log_says_how_long_a_stop_may_take_as_it_was_asked_for(
    lab: Any, recorder: Any, events: Any
) -> None:
    """Not what is left of it when the poll thread comes round."""
    app = lab.app(recorder)
    app.add_hook(events)
    app.start()
    app.stop(timeout_s=7.0)
    assert [event.deadline_s for event in events.of(AppStopping)] == [7.0]


@pytest.mark.parametrize("code", [KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN])
def test_a_last_commit_that_is_refused_for_a_moment_is_tried_again(
    lab: Any, recorder: Any, events: Any, wait_for: Any, code: int
) -> None:
    """The stop still has time, so nothing is handled twice; exit code 0."""
    lab.produce("a b")
    app = lab.app(recorder, commit_interval_s=60.0)
    app.add_hook(events)
    # The first commit is due at once: it must not have what the last one is to have.
    gate = recorder.block()
    app.start()
    ledger = inside(app).ledger
    wait_for(lambda: ledger.next_due_s() > 0)
    gate.set()
    wait_for(lambda: recorder.count == 2 and ledger.in_flight is None)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, code)
    app.stop(timeout_s=10.0)
    assert len(events.of(CommitFailed)) == 1
    assert lab.committed() == 2
    assert [event.exit_code for event in events.of(AppStopped)] == [0]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_stop_without_records_complains_of_no_commit_that_nobody_needs(
    lab: Any, wait_for: Any, start: Any
) -> None:
    """The next run begins an empty log where this one did; without the commit `latest` would skip records."""
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.REBALANCE_IN_PROGRESS] * 200)
    app = lab.app(lab.recorder(), start=start)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    if start == "latest":
        with pytest.raises(ehkafka.errors.UnfinishedError, match="REBALANCE_IN_PROGRESS"):
            app.stop(timeout_s=2.0)
        return
    began_s = time.monotonic()
    app.stop(timeout_s=10.0)
    assert time.monotonic() - began_s < 5.0


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ([KafkaError.UNKNOWN_MEMBER_ID], "UNKNOWN_MEMBER_ID"),
        ([KafkaError.UNKNOWN] * 20, "UNKNOWN"),
    ],
)
def test_a_last_commit_that_never_succeeds_is_reported_by_error_and_exit_code(
    lab: Any, recorder: Any, events: Any, wait_for: Any, codes: list[int], words: str
) -> None:
    """What finished is handled again, so the stop names the partition and ends with code 4."""
    lab.produce("a b")
    app = lab.app(recorder, commit_interval_s=60.0)
    app.add_hook(events)
    # The first commit is due at once: it must not have what the last one is to have.
    gate = recorder.block()
    app.start()
    ledger = inside(app).ledger
    wait_for(lambda: ledger.next_due_s() > 0)
    gate.set()
    wait_for(lambda: recorder.count == 2 and ledger.in_flight is None)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *codes)
    with pytest.raises(
        ehkafka.errors.UnfinishedError, match=rf"last commit of t\[0\] failed \({words}"
    ) as caught:
        app.stop(timeout_s=0.7)
    assert caught.value.exit_code == 4
    assert [event.exit_code for event in events.of(AppStopped)] == [4]
    assert lab.committed() in (None, 0)


def test_no_request_on_its_way_may_take_the_last_commit_back(
    lab: Any, recorder: Any, events: Any, wait_for: Any
) -> None:
    """A commit that librdkafka sends again by itself ends before the last one starts."""
    app = lab.app(recorder, commit_interval_s=60.0, commit_every_records=1)
    app.add_hook(events)
    gate = recorder.block(b"late")
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    # librdkafka tells nobody of this refusal: it sends the request again after a while.
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    lab.produce("a late")
    wait_for(lambda: inside(app).ledger.in_flight)
    gate.set()
    wait_for(lambda: recorder.count == 2)
    app.stop()
    assert lab.committed() == 2


def test_a_signal_during_the_start_stops_the_app_in_good_order(lab: Any, program: Any) -> None:
    """SIGTERM while on_start runs: the start ends, then the app stops; what came is handled, exit code 0."""
    lab.produce("a")
    started = program(
        """
        app.on_start(lambda: os.kill(os.getpid(), signal.SIGTERM))
        app.on_stop(lambda: say("closed"))
        @app.handler("t")
        def handle(record):
            say("handled")
        run()
        """
    )
    assert started.wait() == 0
    assert started.lines[-2:] == ["closed", "END"]
    assert (lab.committed() or 0) == started.printed("handled")


def test_a_second_signal_during_the_start_interrupts_it(lab: Any, program: Any) -> None:
    """An on_start that hangs can be left with a second Ctrl-C."""
    started = program(
        """
        def hang():
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            say("never")
        app.on_start(hang)
        app.handler("t")(print)
        try:
            app.run()
        except KeyboardInterrupt:
            say("interrupted", app.state)
        """
    )
    assert started.wait() == 0
    assert started.lines == ["interrupted stopped"]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_while_the_broker_is_waited_for_interrupts_the_start_at_once(
    program: Any, number: str
) -> None:
    """One Ctrl-C is enough where nothing has begun: nobody waits for connect_s to be over."""
    started = program(
        f"""
        app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"), start="latest",
            connect_s=600.0, consumer={{"log_level": 0}})
        app.handler("t")(print)
        def interrupt():
            while not app.current_run.is_reaching:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.{number})
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            app.run()
        except KeyboardInterrupt:
            say("interrupted", app.state)
        os._exit(0)
        """
    )
    assert started.wait() == 0
    assert started.lines == ["interrupted stopped"]
