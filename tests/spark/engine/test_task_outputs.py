"""Outputs of one task without a JVM: in their topic, in order, and all of them before the task reports."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError, HandlerFailedError
from ehkafka.outputs import one_producer
from ehkafka.spark.engine.tasks.outputs import TaskOutputs
from tests.contract.outputs_order import problems
from tests.kit.simulated.message import SimulatedMessage
from tests.spark.engine.sent import by_thread, wanted

if TYPE_CHECKING:
    from tests.spark.engine.sent import Out

QUICK = ehkafka.Retry(attempts=3, first_s=0.01)


def by_thread_slow(record: Any) -> Any:
    """Send the offset."""
    time.sleep(0.001)
    return str(record.offset())


async def by_task(record: Any) -> Any:
    """Send the offset."""
    return str(record.offset())


def by_send(record: Any) -> None:
    """Send the offset."""
    record.send(str(record.offset()))


def by_message(message: Any) -> Any:
    """Send the offset."""
    return str(message.offset())


def by_payload(record: ehkafka.Record, payload: dict[str, int]) -> ehkafka.Send:
    """Send the offset that a decoder read."""
    assert payload["n"] == record.offset()
    return ehkafka.Send(str(payload["n"]))


class ByInstance:
    """Sends the offset."""

    def process(self, record: Any) -> Any:
        """Handle a record."""
        return str(record.offset())


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (by_thread, {}),
    "slow": (by_thread_slow, {"workers": 8}),
    "tasks": (by_task, {}),
    "send": (by_send, {}),
    "raw": (by_message, {"raw": True}),
    "decoded": (by_payload, {}),
    "class": (ByInstance, {}),
    "before_next": (by_thread, {"acknowledged": "before_next"}),
    "before_next, tasks": (by_task, {"acknowledged": "before_next"}),
}


def as_json(log: list[Any]) -> list[Any]:
    """Return the same records with a payload."""
    return [
        SimulatedMessage(one.topic(), one.partition(), one.offset(), one.key(), b'{"n": %d}' % one.offset())
        for one in log
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_all_outputs_are_in_their_topic_in_order_when_a_task_reports(
    out: Out, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each record, each key's in order, and none of them later than the task's rows."""
    monkeypatch.setattr(one_producer, "LAST_ANSWERS_S", 0.0)  # who did not wait would lose them
    handler, options = KINDS[kind]
    log = as_json(out.lab.log_of(400))
    work = out.work(out.app(handler, **options), log)
    out.broker.delay_next(ApiKey.PRODUCE, 0.3)
    (result,) = work.run(out.lab.as_batches(log))
    assert result.finished == 400
    assert problems(wanted(log), out.read(), repeats=False) == []


def test_a_forgotten_producer_id_costs_no_output(out: Out) -> None:
    """Another producer sends what is not acknowledged; the task waits for it, and its process keeps it."""
    log = out.lab.log_of(200)
    work = out.work(out.app(by_thread), log)
    out.broker.fail_next(ApiKey.PRODUCE, 47, 47, 47)
    work.run(out.lab.as_batches(log))
    assert problems(wanted(log), out.read()) == []


def test_an_output_refused_for_good_fails_the_task_by_name(out: Out) -> None:
    """The default policy; the words are Spark's: nothing of the batch is committed."""
    log = out.lab.log_of(3)
    work = out.work(out.app(by_thread), log)
    out.broker.fail_next(ApiKey.PRODUCE, *[87] * 8)
    with pytest.raises(HandlerFailedError, match=r"An output of t\[0\]@\d.*Nothing of its batch was commit"):
        work.run(out.lab.as_batches(log))
    assert work.failure is not None
    assert work.still_running == ()


@pytest.mark.parametrize("to", ["dead", "function"])
def test_an_output_refused_for_good_is_dead_lettered_before_the_task_reports(out: Out, to: str) -> None:
    """The record's letter is safe by then."""
    letters: list[int] = []

    def bury(letter: ehkafka.Letter) -> None:
        time.sleep(0.1)
        letters.append(letter.offset)

    policy = ehkafka.DeadLetter("dead" if to == "dead" else bury)
    log = out.lab.log_of(1)
    work = out.work(out.app(by_thread, on_failure=policy), log)
    out.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    work.run(out.lab.as_batches(log))
    assert letters == [0] if to == "function" else out.read("dead") == [(b"k0", log[0].value())]
    assert out.read() == []


def test_a_refused_letter_of_a_refused_output_fails_the_task(out: Out) -> None:
    """Nothing could free the record, and its batch would never end."""
    log = out.lab.log_of(1)
    work = out.work(out.app(by_thread, on_failure=ehkafka.DeadLetter("dead")), log)
    out.broker.fail_next(ApiKey.PRODUCE, *[87] * 8)
    with pytest.raises(HandlerFailedError, match="The record's dead letter was refused, too"):
        work.run(out.lab.as_batches(log))


def test_what_is_too_large_fails_the_attempt_and_the_endpoint_may_raise_the_limit(out: Out) -> None:
    """As in one process; an app's own properties come with the endpoint here."""

    def handle(record: Any) -> bytes:
        return b"x" * 1_500_000 if record.offset() == 1 else b"1"

    log = out.lab.log_of(3)
    (result,) = out.work(out.app(handle, on_failure=ehkafka.Skip()), log).run(out.lab.as_batches(log))
    assert (result.finished, result.skipped) == (2, 1)
    app = out.lab.make_app(
        endpoint=ehkafka.Endpoint.kafka(out.broker.bootstrap, {"message.max.bytes": 2_000_000})
    )
    app.handler("t", to="out")(handle)
    (result,) = out.work(app, log).run(out.lab.as_batches(log))
    assert result.finished == 3


def fail_and_try_again(out: Out, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fail a task whose outputs wait behind a slow request, and run it again; return what is in the topic."""
    monkeypatch.setattr(one_producer, "LAST_ANSWERS_S", 0.1)
    failed = threading.Event()

    def handle(record: Any) -> str:
        if record.offset() == 1 and not failed.is_set():
            time.sleep(0.6)  # the key's first output is acknowledged
            out.broker.delay_next(ApiKey.PRODUCE, 1.5)
        if record.offset() in (2, 50) and not failed.is_set():
            time.sleep(0.2)  # the request with the next one goes; the client has the others
        if record.offset() == 50 and not failed.is_set():
            failed.set()
            raise LookupError
        return str(record.offset())

    log = out.lab.log_of(60, keys=1)
    with pytest.raises(HandlerFailedError):
        out.work(out.app(handle), log).run(out.lab.as_batches(log))
    out.work(out.app(handle), log).run(out.lab.as_batches(log))
    # What the first one left behind, should it have, goes when the slow request is answered.
    time.sleep(1.5)
    return [int(value) for _, value in out.read()]


def test_a_task_that_fails_takes_back_what_it_has_not_sent(
    out: Out, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its next attempt sends all again; what the first one had queued does not come behind that."""
    assert fail_and_try_again(out, monkeypatch) == [0, 1, *range(60)]
    assert "sent again" not in caplog.text, "only the next attempt sends it again"


def test_mutant_a_task_that_fails_leaves_its_producer_alone(
    out: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its queue goes on behind what the next attempt has sent."""
    left: list[TaskOutputs] = []
    stop = TaskOutputs.stop
    monkeypatch.setattr(TaskOutputs, "end", lambda _self: None)
    monkeypatch.setattr(TaskOutputs, "stop", lambda self: stop(self) if left else left.append(self))
    try:
        found = fail_and_try_again(out, monkeypatch)
        assert found.count(2) == 2
        assert found[-1] != 59, "the key's last output is an old one"
    finally:
        for one in left:
            stop(one)


def test_a_broker_without_producer_ids_fails_the_task(out: Out) -> None:
    """Order could not be kept; the start on the driver says the same."""
    out.broker.disable(ApiKey.INIT_PRODUCER_ID)
    log = out.lab.log_of(1)
    with pytest.raises(EndpointError, match="does not support producer IDs"):
        out.work(out.app(by_thread), log).run(out.lab.as_batches(log))


def test_outputs_that_wait_are_reported(out: Out, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that takes nothing holds the task; its executor's log says so after `stuck_s`."""
    app = out.lab.make_app(endpoint=ehkafka.Endpoint.kafka(out.broker.bootstrap), stuck_s=0.6)
    app.handler("t", to="out")(by_thread)
    log = out.lab.log_of(1)
    work = out.work(app, log)
    out.broker.delay_next(ApiKey.PRODUCE, 2.5)
    with caplog.at_level("ERROR", "ehkafka"):
        work.run(out.lab.as_batches(log))
    assert caplog.text.count("The broker has not acknowledged 1 output for") == 1
