"""What must not hold outputs up, or a stop: the user's own functions, and a sender that has died."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.outputs.sender import OutputSender
from ehkafka.testing import ApiKey


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with a topic for outputs."""
    lab.broker.create_topic("out", 1)
    return lab


def copies(record: Any) -> Any:
    """Send what came."""
    return record.value()


def gated_app(lab: Any, hook: Any = None, **options: Any) -> tuple[Any, threading.Event]:
    """Start an app whose handler waits for the event that is returned."""
    gate = threading.Event()

    def handle(record: Any) -> Any:
        assert gate.wait(30.0)
        return record.value()

    app = lab.app(None)
    if hook is not None:
        app.add_hook(hook)
    app.handler("t", to="out", **options)(handle)
    app.start()
    return app, gate


@pytest.mark.parametrize("options", [{}, {"acknowledged": "before_next"}])
def test_a_slow_retry_function_holds_up_no_other_output(
    out: Any, wait_for: Any, read_topic: Any, options: dict[str, Any]
) -> None:
    """It may ask a service; meanwhile outputs of other keys are sent and committed."""
    asked, answer = threading.Event(), threading.Event()

    def retry(_record: Any, _attempt: int, _error: Exception) -> float:
        asked.set()
        assert answer.wait(30.0)
        return 0.0

    out.produce("a")
    app, gate = gated_app(out, retry=retry, **options)
    # With its batch, then alone.
    out.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    gate.set()
    assert asked.wait(20.0)
    out.produce("b c")
    assert [message.key() for message in read_topic("out", 2)] == [b"b", b"c"]
    assert out.committed() in (0, None)
    answer.set()
    wait_for(lambda: out.committed() == 3)
    app.stop()


def test_a_retry_function_that_raises_leaves_it_to_the_policy(out: Any, wait_for: Any, events: Any) -> None:
    """It is reported, and the app goes on."""

    def retry(_record: Any, _attempt: int, _error: Exception) -> float:
        raise LookupError("no such service")

    out.produce("a b")
    app, gate = gated_app(out, events, retry=retry, on_failure=ehkafka.Skip())
    out.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    gate.set()
    wait_for(lambda: out.committed() == 2)
    wait_for(lambda: any("no such service" in str(event) for event in events))
    app.stop()


def test_a_sender_that_dies_ends_the_app_at_once_with_the_cause(
    out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for acknowledgements that cannot come, and nothing is committed past them."""
    causes = [MemoryError("no room for an answer")]

    def breaks(*_answer: object) -> None:
        if causes:
            raise causes.pop()

    app = out.app(None, stop_s=30.0)
    app.handler("t", to="out")(copies)
    app.start()
    out.broker.delay_next(ApiKey.PRODUCE, 5.0)
    monkeypatch.setattr(OutputSender, "_reported", breaks)
    began_s = time.monotonic()
    out.produce("a b c")
    assert app.wait(25.0)
    assert time.monotonic() - began_s < 20.0
    assert app.health().reasons
    with pytest.raises(ehkafka.EhkafkaError, match="no room for an answer"):
        app.stop()
    assert out.committed() in (0, None)
