"""Outputs that the broker refuses again and again, slow user code meanwhile, a sender that dies."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.errors import UnfinishedError
from ehkafka.events import OutputRefused, ProducerReplaced
from ehkafka.outputs.reports import Reports
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.contract.letters import TO_DEAD
from tests.kit.waiting import must_stay, wait_until

REFUSED = KafkaError.INVALID_RECORD


def test_a_broker_that_refuses_every_output_does_not_slow_the_next_refusal_down(
    out: Any, events: Any
) -> None:
    """A refusal is the message's and no fault of its producer's, which goes on without a wait."""
    out.produce(" ".join(f"key{number}" for number in range(12)))
    retry = ehkafka.Retry(attempts=3, first_s=0.001, max_s=0.001)
    out.broker.fail_next(ApiKey.PRODUCE, *[KafkaError.MSG_SIZE_TOO_LARGE] * 200)
    began_s = time.monotonic()
    app = out.start(lambda record: str(record.offset()), to="out", retry=retry, on_failure=ehkafka.Skip())
    wait_until(lambda: out.committed() == 12)
    # Waits would be a second, two, four … after three refusals each.
    assert time.monotonic() - began_s < 15.0
    app.stop()
    assert sum(refused.attempt == 3 for refused in events.of(OutputRefused)) == 12
    assert [one for one in events.of(ProducerReplaced) if "lost its place" in one.reason] == []


# --- refused with its record's letter ---


@pytest.fixture
def refusing(out: Any) -> Any:
    """Return the lab with a record whose output and letter are refused, each with its batch and alone."""
    out.produce("a")
    out.broker.fail_next(ApiKey.PRODUCE, *[REFUSED] * 4)
    return out


def copies(lab: Any, *, to_key: bytes | None = None, **options: Any) -> tuple[Any, list[int]]:
    """Return an app that runs and copies records, and the offsets that it has handled."""
    handled: list[int] = []

    def handle(record: Any) -> Any:
        handled.append(record.offset())
        return ehkafka.Send(b"%d" % record.offset(), key=to_key or record.key())

    return lab.start(handle, to="out", on_failure=TO_DEAD, workers=4, **options), handled


def test_only_its_key_waits_and_health_says_why(refusing: Any, read_topic: Any) -> None:
    """A restart handles its record again, and all that waited."""
    app, handled = copies(refusing, stop_s=20.0)
    wait_until(lambda: any("'out'" in one and "dead" in one for one in app.health().reasons))
    (reason,) = [one for one in app.health().reasons if "'out'" in one]
    assert "t[0]@0" in reason
    assert "INVALID_RECORD" in reason
    refusing.produce(" ".join(["a b"] * 20))
    wait_until(lambda: {offset for offset in handled if offset} == set(range(2, 41, 2)))
    wait_until(lambda: app.snapshot().unacknowledged_outputs == 1)
    must_stay(lambda: len(handled) == 21 and refusing.committed() in (None, 0))
    began_s = time.monotonic()
    with pytest.raises(UnfinishedError, match="1 output was not acknowledged"):
        app.stop()
    assert time.monotonic() - began_s < 10.0, "a stop waits for what a person decides"
    again, handled = copies(refusing)
    wait_until(lambda: refusing.committed() == 41)
    again.stop()
    assert set(handled) >= {0, *range(1, 40, 2)}
    found = [int(one.value()) for one in read_topic("out", 41) if one.key() == b"a"]
    assert found == [0, *range(1, 40, 2)]


def test_other_keys_that_send_to_its_key_wait_as_well(refusing: Any) -> None:
    """Else their outputs would take the room of all."""
    app, handled = copies(refusing, to_key=b"all")
    wait_until(lambda: any("'out'" in one for one in app.health().reasons))
    refusing.produce("b c")
    wait_until(lambda: app.snapshot().unacknowledged_outputs == 3)
    time.sleep(2.0)  # two slow checks
    refusing.produce("b c b c")
    must_stay(lambda: sorted(handled) == [0, 1, 2])
    with pytest.raises(UnfinishedError):
        app.stop()


# --- what must not hold outputs up ---


def gated(lab: Any, **options: Any) -> threading.Event:
    """Start an app whose first outputs are refused; return the event that its handler has waited for."""
    gate = threading.Event()

    def handle(record: Any) -> Any:
        assert gate.wait(30.0)
        return record.value()

    lab.start(handle, to="out", **options)
    # With its batch, then alone.
    lab.broker.fail_next(ApiKey.PRODUCE, REFUSED, REFUSED)
    gate.set()
    return gate


@pytest.mark.parametrize("options", [{}, {"acknowledged": "before_next"}])
def test_a_slow_retry_function_holds_up_no_other_output(
    out: Any, read_topic: Any, options: dict[str, Any]
) -> None:
    """It may ask a service; meanwhile outputs of other keys are sent and committed."""
    asked, answer = threading.Event(), threading.Event()

    def retry(_record: Any, _attempt: int, _error: Exception) -> float:
        asked.set()
        assert answer.wait(30.0)
        return 0.0

    out.produce("a")
    gated(out, retry=retry, **options)
    assert asked.wait(20.0)
    out.produce("b c")
    assert [message.key() for message in read_topic("out", 2)] == [b"b", b"c"]
    assert out.committed() in (0, None)
    answer.set()
    wait_until(lambda: out.committed() == 3)


def test_a_retry_function_that_raises_leaves_it_to_the_policy(out: Any, events: Any) -> None:
    """It is reported, and the app goes on."""

    def retry(_record: Any, _attempt: int, _error: Exception) -> float:
        raise LookupError("no such service")

    out.produce("a b")
    gated(out, retry=retry, on_failure=ehkafka.Skip())
    wait_until(lambda: out.committed() == 2)
    wait_until(lambda: any("no such service" in str(event) for event in events))


def test_a_sender_that_dies_ends_the_app_at_once_with_the_cause(
    out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waits for acknowledgements that cannot come, and nothing is committed past them."""
    causes = [MemoryError("no room for an answer")]

    def breaks(*_answer: object) -> None:
        if causes:
            raise causes.pop()

    app = out.start(lambda record: record.value(), to="out", stop_s=30.0)
    out.broker.delay_next(ApiKey.PRODUCE, 5.0)
    monkeypatch.setattr(Reports, "take", breaks)
    began_s = time.monotonic()
    out.produce("a b c")
    assert app.wait(25.0)
    assert time.monotonic() - began_s < 20.0
    assert app.health().reasons
    ends_with(app, ehkafka.EhkafkaError, "no room for an answer")
    assert out.committed() in (0, None)
