"""Failing handlers, hooks, topics and brokers: what each leads to, and what it must not touch."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.events import UserCodeFailed
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until


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
    lab: Any, recorder: Any, answer: Any, policy: Any, stops: bool
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
        wait_until(lambda: recorder.count == 2 and not app.health())
        assert app.state == "running"
        app.stop()
    ((kind, partition, record, error),) = asked
    assert (kind, partition, record.offset()) == ("handler", ehkafka.TopicPartition("t", 0), 1)
    assert isinstance(error, ValueError)


def test_on_error_that_raises_leaves_it_to_the_policy_and_is_reported(
    lab: Any, recorder: Any, events: Any
) -> None:
    """The app goes on under Hold(); the hook's error is an event."""
    recorder.fail_at(0)
    lab.produce("a b")
    app: ehkafka.App = lab.app(recorder, on_failure=ehkafka.Hold())

    @app.on_error
    def on_error(*_arguments: Any) -> None:
        raise LookupError("no answer")

    app.start()
    wait_until(lambda: recorder.count == 1)
    (failed,) = wait_until(lambda: events.of(UserCodeFailed))
    assert failed.where == "on_error"
    assert "no answer" in failed.error
    app.stop()


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


def test_event_hooks_that_raise_or_block_never_reach_the_data_path(lab: Any, recorder: Any) -> None:
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
    wait_until(lambda: lab.committed() == 3)
    assert app.snapshot().counters["hook_errors"] >= 1
    gate.set()


@pytest.mark.parametrize("name", ["on_revoked", "on_idle"])
def test_partition_hooks_that_raise_are_reported_and_stop_nothing(
    lab: Any, recorder: Any, events: Any, name: str
) -> None:
    """on_revoked and on_idle: the error is an event, records and commits go on."""

    def broken(*_arguments: Any) -> None:
        raise ArithmeticError("broken hook")

    lab.produce("a b c")
    app = lab.app(recorder, idle_s=0.2)
    getattr(app, name)(broken)
    app.start()
    wait_until(lambda: lab.committed() == 3)
    if name == "on_idle":
        wait_until(lambda: events.of(UserCodeFailed))
        lab.produce("d")
        wait_until(lambda: lab.committed() == 4)
    app.stop()
    assert "broken hook" in events.of(UserCodeFailed)[0].error
