"""Senders that go from task to task of a worker process, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import HandlerFailedError
from ehkafka.events import ProducerNotOpened
from ehkafka.spark.engine.tasks import outputs
from ehkafka.spark.kept import IDLE_MAX, KeptClients
from tests.contract.outputs_order import problems
from tests.kit.waiting import wait_until
from tests.spark.engine.sent import by_thread, wanted

if TYPE_CHECKING:
    from tests.spark.engine.sent import Out


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the senders that are made for tasks."""
    made: list[Any] = []
    real = outputs.output_sender

    def noting(*given: Any) -> Any:
        made.append(real(*given))
        return made[-1]

    monkeypatch.setattr(outputs, "output_sender", noting)
    return made


def test_tasks_of_one_process_share_a_sender(out: Out, opened: list[Any]) -> None:
    """A new connection for each task would cost more than the task; the id is the same."""
    app = out.app(by_thread)
    for start in range(0, 300, 100):
        log = out.lab.log_of(100, start=start)
        out.work(app, log).run(out.lab.as_batches(log))
    assert len(opened) == 1
    assert problems(wanted(out.lab.log_of(300)), out.read(), repeats=False) == []


def test_a_task_that_fails_leaves_no_sender_behind(out: Out, opened: list[Any]) -> None:
    """The next one gets a new one, whatever state the first one's is in."""

    def handle(record: Any) -> str:
        if record.offset() == 5:
            raise LookupError
        return str(record.offset())

    log = out.lab.log_of(6)
    with pytest.raises(HandlerFailedError):
        out.work(out.app(handle), log).run(out.lab.as_batches(log))
    assert [one.is_running for one in opened] == [False]
    log = out.lab.log_of(5)
    out.work(out.app(handle), log).run(out.lab.as_batches(log))
    assert len(opened) == 2


def test_a_process_keeps_the_clients_that_were_used_last() -> None:
    """So many of a kind: what a session has run long ago holds no connection for good."""
    closed: list[int] = []
    clients = KeptClients(closed.append)

    def use(key: int) -> None:
        with clients.used(key, lambda: key):
            assert key not in clients._idle.values()

    for key in range(1, IDLE_MAX + 1):
        use(key)
    use(1)
    assert closed == []
    use(IDLE_MAX + 1)
    assert closed == [2]
    clients.close()
    assert sorted(closed) == list(range(1, IDLE_MAX + 2))


def test_a_kept_sender_replaces_its_client_between_two_tasks(out: Out, opened: list[Any]) -> None:
    """Its own thread serves the client, so the callbacks let through do not pile up; and the id is new."""
    app = out.app(by_thread)
    log = out.lab.log_of(5)
    out.work(app, log).run(out.lab.as_batches(log))
    (sender,) = opened
    before = sender._producer.client
    sender._producer.failed(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH))
    wait_until(lambda: sender._producer.client not in (None, before))
    log = out.lab.log_of(5, start=5)
    out.work(app, log).run(out.lab.as_batches(log))
    assert problems(wanted(out.lab.log_of(10)), out.read(), repeats=False) == []


def test_what_a_kept_sender_reports_is_the_next_tasks(out: Out, caplog: pytest.LogCaptureFixture) -> None:
    """No task listens between two tasks, and no answer is lost."""
    app = out.app(by_thread)
    log = out.lab.log_of(5)
    out.work(app, log).run(out.lab.as_batches(log))
    (kept,) = outputs.KEPT._idle.values()
    kept.report(ProducerNotOpened("outputs", "between", 1.0))
    out.work(app, log).run(out.lab.as_batches(log))
    assert "between" in caplog.text


def test_a_task_without_outputs_opens_no_producer(out: Out, opened: list[Any]) -> None:
    """Another handler of the app may have some: its topic is not this task's."""
    app = out.app(by_thread)
    app.handler("u")(lambda record: None)
    log = out.lab.log_of(5, topic="u")
    out.work(app, log).run(out.lab.as_batches(log))
    assert opened == []


def test_a_forked_process_has_a_sender_of_its_own(
    out: Out, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of its parent's is not there."""
    app, log = out.app(by_thread), out.lab.log_of(5)
    out.work(app, log).run(out.lab.as_batches(log))
    with monkeypatch.context() as patched:
        patched.setattr("ehkafka.spark.kept.os.getpid", lambda: 1)
        out.work(app, log).run(out.lab.as_batches(log))
    assert len(opened) == 2


def test_tasks_that_have_letters_alone_share_one_that_needs_no_id(out: Out, opened: list[Any]) -> None:
    """Also where the broker gives none."""
    out.broker.disable(ApiKey.INIT_PRODUCER_ID)

    def handle(_record: Any) -> None:
        raise LookupError

    app = out.app(handle, to=(), on_failure=ehkafka.DeadLetter("more"))
    for start in (0, 3):
        log = out.lab.log_of(3, start=start)
        (result,) = out.work(app, log).run(out.lab.as_batches(log))
        assert result.dead_lettered == 3
    assert [len(opened), len(out.read("more"))] == [1, 6]
