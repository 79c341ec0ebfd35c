"""Starts that fail, signals while an app starts, and starts after a stop."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.run import reach
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until


@pytest.mark.parametrize(
    ("topic", "options", "error"),
    [
        ("t", {"connect_s": 0.5, "endpoint": ehkafka.Endpoint.kafka("127.0.0.1:1")}, "EndpointError"),
        ("missing", {}, "TopicNotFoundError"),
    ],
)
def test_no_pool_is_opened_for_what_cannot_be_reached(
    lab: Any, recorder: Any, topic: str, options: dict[str, Any], error: str
) -> None:
    """A wrong address and a missing topic end the start before on_start; a wait for the app returns."""
    seen: list[str] = []
    app = lab.app(recorder, topic, **options)
    app.on_start(lambda: seen.append("opened"))
    app.on_stop(lambda: seen.append("closed"))
    with pytest.raises(getattr(ehkafka.errors, error)):
        app.start()
    assert seen == []
    assert app.wait(1.0)


@pytest.mark.parametrize("hook", ["on_start", "on_worker_start"])
def test_a_hook_that_raises_keeps_the_app_from_starting(
    lab: Any, recorder: Any, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error reaches the caller, pools of a whole on_start are closed, and the app may start again.

    Neither a client nor a thread of its outputs is left.
    """
    seen: list[str] = []
    whole = ["opened", "closed"]
    clients: list[Any] = []
    opens = reach.open_consumer
    monkeypatch.setattr(
        reach, "open_consumer", lambda *of, **by: clients.append(opens(*of, **by)) or clients[-1]
    )
    app = lab.app()
    app.handler("t", to="t4")(recorder)
    app.on_start(lambda: seen.append("opened"))
    app.on_stop(lambda: seen.append("closed"))
    broken = True

    def connect() -> None:
        if broken:
            raise ConnectionError("no database")

    getattr(app, hook)(connect)
    with pytest.raises(ConnectionError, match="no database"):
        app.start()
    assert seen == (whole if hook == "on_worker_start" else ["opened"])
    assert app.state == "stopped"
    with pytest.raises(RuntimeError, match="Consumer closed"):
        clients[0].consume(1, 0.0)
    broken = False
    app.start()
    app.stop()
    assert seen[-2:] == whole


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
    with pytest.raises(RuntimeError, match="can't start new thread"):
        lab.start(recorder, workers=4)


def test_an_app_that_ended_by_itself_wants_to_be_stopped_before_it_starts_again(
    lab: Any, recorder: Any
) -> None:
    """The message says so: stop() tells why it ended, and then the app starts anew."""
    recorder.fail_at(0)
    lab.produce("a")
    app = lab.start(recorder)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="running"):
        app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.ConfigurationError, match=r"ended by itself. Call stop\(\)"):
        app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError)
    recorder.work = None
    app.start()
    wait_until(lambda: recorder.finished_offsets() == [0])


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


def test_a_second_signal_during_the_start_interrupts_it(program: Any) -> None:
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
    """One Ctrl-C is enough where nothing has begun: it does not wait for connect_s to be over."""
    started = program(
        f"""
        app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"), start="latest",
            connect_s=600.0, consumer={{"log_level": 0}})
        app.handler("t")(print)
        def interrupt():
            while not any(one.name == "ehkafka-reach" for one in threading.enumerate()):
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


def test_a_failed_start_ends_the_wait_of_other_threads(lab: Any, recorder: Any) -> None:
    """Who calls stop() or wait() while a start fails returns when it has failed; the start tells why."""
    app = lab.app(recorder)
    inside, go_on = threading.Event(), threading.Event()

    @app.on_start
    def fail() -> None:
        inside.set()
        assert go_on.wait(10.0)
        raise ValueError("no pool")

    raised: list[BaseException] = []

    def start() -> None:
        try:
            app.start()
        except ValueError as error:
            raised.append(error)

    starting = threading.Thread(target=start)
    others = [threading.Thread(target=app.stop), threading.Thread(target=app.wait)]
    starting.start()
    assert inside.wait(10.0)
    for thread in others:
        thread.start()
    go_on.set()
    for thread in (starting, *others):
        thread.join(3.0)
        assert not thread.is_alive()
    assert [str(error) for error in raised] == ["no pool"]


def test_a_fork_after_the_start_is_refused_in_the_child(lab: Any, recorder: Any) -> None:
    """The child has neither threads nor sockets; the message says to start after the fork."""
    app = lab.start(recorder)
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
