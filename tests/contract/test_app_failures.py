"""Failing handlers, hooks, topics and brokers: what each leads to, and what it must not touch."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import HandlerFailed, UserCodeFailed
from tests.kit.unstolen import unstolen_s


def ends_with(app: Any, kind: type[ehkafka.EhkafkaError], words: str | None = None) -> Any:
    """Wait for the app to end by itself; return the error that ended it."""
    assert app.wait(15.0)
    with pytest.raises(kind, match=words) as caught:
        app.stop()
    return caught.value


def test_by_default_a_failing_handler_stops_the_app_and_commits_nothing_past_it(
    lab: Any, recorder: Any
) -> None:
    """Topic, partition, offset, key, attempt, cause and next step; exit code 1; a restart repeats it."""
    recorder.fail_at(2)
    lab.produce("a b c d e")
    app = lab.app(recorder, workers=1)
    app.start()
    error = ends_with(
        app, ehkafka.errors.HandlerFailedError, r"'Recorder' failed at t\[0\]@2, key c, attempt 1"
    )
    assert "ValueError: no luck with 2" in str(error)
    assert "Fix the handler or the record" in str(error)
    assert isinstance(error.__cause__, ValueError)
    assert error.exit_code == 1
    assert lab.committed() in (0, 1, 2)
    assert not app.health()

    again = lab.recorder()
    second = lab.app(again)
    second.start()
    lab.produce("f")
    while again.count < 6 - (lab.committed() or 0) and 2 not in again.offsets():
        time.sleep(0.01)
    second.stop()
    assert 2 in again.offsets()
    assert lab.committed() == 6


def test_hold_keeps_the_record_and_its_key_while_others_go_on(
    lab: Any, events: Any, recorder: Any, wait_for: Any, stays: Any
) -> None:
    """Its key waits, nothing at or above it is committed, health is red, other keys go on."""
    recorder.fail_at(1)
    lab.produce("a bad b bad c")
    app = lab.app(recorder, on_failure=ehkafka.Hold())
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.count == 3)
    wait_for(lambda: not app.health())
    lab.produce("d e bad f")
    wait_for(lambda: recorder.count == 6)
    stays(lambda: recorder.keys.count(b"bad") == 1)
    (reason,) = app.health().reasons
    assert reason == "t[0]@1, key bad is on hold after 1 attempt: ValueError: no luck with 1."
    assert lab.committed() == 1
    assert app.snapshot().partitions[0].parked_records == 3
    (failed,) = events.of(HandlerFailed)
    assert (failed.offset, failed.key, failed.attempt) == (1, "bad", 1)
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 1.5
    assert lab.committed() == 1


@pytest.mark.parametrize(
    ("answer", "policy", "stops"),
    [
        ("continue", ehkafka.Stop(), False),
        ("stop", ehkafka.Hold(), True),
        (None, ehkafka.Hold(), False),
        (None, ehkafka.Stop(), True),
        ("nonsense", ehkafka.Hold(), False),
    ],
)
def test_on_error_may_overrule_the_policy(
    lab: Any, recorder: Any, wait_for: Any, answer: Any, policy: Any, stops: bool
) -> None:
    """`continue` holds the record, `stop` ends the app, anything else leaves it to on_failure."""
    asked: list[Any] = []
    recorder.fail_at(1)
    lab.produce("a b c")
    app: ehkafka.App = lab.app(recorder, on_failure=policy)

    @app.on_error
    def on_error(*arguments: Any) -> Any:
        asked.append(arguments)
        return answer

    app.start()
    if stops:
        ends_with(app, ehkafka.errors.HandlerFailedError)
    else:
        wait_for(lambda: recorder.count == 2 and not app.health())
        assert app.state == "running"
        app.stop()
    ((kind, partition, record, error),) = asked
    assert (kind, partition, record.offset()) == ("handler", ehkafka.TopicPartition("t", 0), 1)
    assert isinstance(error, ValueError)


def test_on_error_that_raises_leaves_it_to_the_policy_and_is_reported(
    lab: Any, recorder: Any, events: Any, wait_for: Any
) -> None:
    """The app goes on under Hold(); the hook's error is an event."""
    recorder.fail_at(0)
    lab.produce("a b")
    app: ehkafka.App = lab.app(recorder, on_failure=ehkafka.Hold())
    app.add_hook(events)

    @app.on_error
    def on_error(*_arguments: Any) -> None:
        raise LookupError("no answer")

    app.start()
    wait_for(lambda: recorder.count == 1)
    (failed,) = wait_for(lambda: events.of(UserCodeFailed))
    assert failed.where == "on_error"
    assert "no answer" in failed.error
    app.stop()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("policy", [ehkafka.Stop(), ehkafka.Hold()], ids=["stop", "hold"])
def test_an_exit_in_a_handler_stops_the_app_without_committing_the_record(
    lab: Any, recorder: Any, error: type[BaseException], policy: Any
) -> None:
    """No verdict on the record, whatever the policy and on_error say."""
    recorder.fail_at(1, error=error)
    lab.produce("a b c")
    app = lab.app(recorder, workers=1, on_failure=policy)
    app.on_error(lambda *_arguments: "continue")
    app.start()
    failure = ends_with(app, ehkafka.errors.HandlerFailedError, rf"t\[0\]@1, key b, .*{error.__name__}")
    assert isinstance(failure.__cause__, error)
    assert lab.committed() in (0, 1)


def test_raising_middleware_is_a_failure_of_its_record(lab: Any, recorder: Any) -> None:
    """The record that it raised for is named, and not committed."""
    lab.produce("a b")
    app: ehkafka.App = lab.app(recorder, workers=1)

    @app.use
    def middleware(record: Any, call_next: Any) -> Any:
        if record.offset() == 1:
            raise PermissionError("not this one")
        return call_next(record)

    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, r"t\[0\]@1.*not this one")
    assert recorder.offsets() == [0]
    assert lab.committed() in (0, 1)


def test_event_hooks_that_raise_or_block_never_reach_the_data_path(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """Records are handled and committed while one hook raises and the telemetry thread is blocked."""

    class Broken:
        def on_event(self, _event: Any) -> None:
            raise ArithmeticError("broken hook")

    class Blocked:
        def on_event(self, _event: Any) -> None:
            gate.wait(30.0)

    gate = recorder.block(b"never produced")
    lab.produce("a b c")
    app = lab.app(recorder)
    app.add_hook(Broken())
    app.add_hook(Blocked())
    app.start()
    wait_for(lambda: lab.committed() == 3)
    assert app.snapshot().counters["hook_errors"] >= 1
    gate.set()
    app.stop()


@pytest.mark.parametrize("name", ["on_revoked", "on_idle"])
def test_partition_hooks_that_raise_are_reported_and_stop_nothing(
    lab: Any, recorder: Any, events: Any, wait_for: Any, name: str
) -> None:
    """on_revoked and on_idle: the error is an event, records and commits go on."""

    def broken(*_arguments: Any) -> None:
        raise ArithmeticError("broken hook")

    lab.produce("a b c")
    app = lab.app(recorder, idle_s=0.2)
    app.add_hook(events)
    getattr(app, name)(broken)
    app.start()
    wait_for(lambda: lab.committed() == 3)
    if name == "on_idle":
        wait_for(lambda: events.of(UserCodeFailed))
        lab.produce("d")
        wait_for(lambda: lab.committed() == 4)
    app.stop()
    assert "broken hook" in events.of(UserCodeFailed)[0].error


def test_an_on_assigned_hook_that_raises_stops_the_app_before_any_record(lab: Any, recorder: Any) -> None:
    """What the hook was to prepare is missing, so nothing of the partition is handled."""
    lab.produce("a b c")
    app: ehkafka.App = lab.app(recorder)

    @app.on_assigned
    def broken(partition: Any) -> None:
        raise ArithmeticError("no table")

    app.start()
    ends_with(app, ehkafka.EhkafkaError, r"opening t\[0\] failed: ArithmeticError: no table")
    assert recorder.started == []
    assert lab.committed() in (None, 0)
