"""How apps that send exactly once start: what is tried, and what is refused, in words."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

import ehkafka
from ehkafka import DeadLetter
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.in_test.run import WITHOUT_TRANSACTIONS
from tests.integration.sent import Sent, plain
from tests.kit.inside import inside
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.broker
INIT = "ehkafka.transactions.producer.TransactionalProducer._init"


def test_a_preview_is_tried_and_goes_on(sent: Sent) -> None:
    """As on a broker of which the endpoint does not say that it has transactions."""
    sent.run(sent.app(plain, exactly_once="preview"), 50)
    sent.check()
    probed = sent.stage.broker.committed(f"{sent.stage.group}-transactions-probe", sent.stage.topic)
    assert probed[0] == 0


def test_what_cannot_be_sent_exactly_once_is_refused_at_the_start(sent: Sent) -> None:
    """Each with the reason and the fix."""
    wrong: dict[str, dict[str, Any]] = {
        "with a function": {"on_failure": DeadLetter(lambda _letter: None)},
        "before_next": {"acknowledged": "before_next"},
        "scope='handler'": {"scope": "handler"},
        "isolation.level='read_uncommitted'": {"consumer": {"isolation.level": "read_uncommitted"}},
    }
    for words, options in wrong.items():
        with pytest.raises(ConfigurationError, match=f"exactly_once: .*{words}"):
            sent.app(plain, **options).start()
    with pytest.raises(ConfigurationError, match="use True, False or 'preview'"):
        sent.app(plain, exactly_once="yes")


def test_other_endpoints_are_refused() -> None:
    """The embedded broker, and Event Hubs unless it is tried."""
    hub = (
        "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0;EntityPath=h"
    )
    for endpoint, words in (
        (ehkafka.Endpoint.embedded({"t": 1}), "embedded broker keeps no offsets"),
        (ehkafka.Endpoint.connection_string(hub), "exactly_once='preview'"),
    ):
        app = ehkafka.App(group="g", endpoint=endpoint, start="earliest", exactly_once=True)
        app.handler("h" if "preview" in words else "t")(lambda _record: None)
        with pytest.raises(ConfigurationError, match=words):
            app.start()


def test_a_broker_without_an_answer_is_an_error_of_the_start(sent: Sent, monkeypatch: Any) -> None:
    """A coordinator that gives no id, in words."""
    monkeypatch.setattr("ehkafka.transactions.producer.INIT_S", 0.001)
    monkeypatch.setattr("ehkafka.transactions.producer.CALL_S", 0.001)
    monkeypatch.setattr("ehkafka.transactions.producer.START_S", -10.0)
    with pytest.raises(EndpointError, match="the broker gave no answer in"):
        sent.app(plain).start()


def test_a_signal_interrupts_a_start_that_waits_for_the_last_transaction(
    sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has begun, so the first one is enough, and no client is left open."""
    app = sent.app(plain)
    monkeypatch.setattr(
        INIT, staticmethod(lambda _client, _is_over: app.current_run.stop_by_signal("SIGTERM", None, None))
    )
    with pytest.raises(KeyboardInterrupt):
        app.run()
    assert app.state == "stopped"
    assert inside(app).context.delivery._producer.client is None


def test_a_stop_by_another_thread_ends_such_a_start(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it takes long; `stop` returns when the start has ended."""
    monkeypatch.setattr("ehkafka.transactions.producer.REPORT_S", 0.1)
    asked = threading.Event()

    def retry(_client: Any, is_over: Any) -> None:
        asked.set()
        wait_until(is_over)
        raise KafkaException(KafkaError(KafkaError.CONCURRENT_TRANSACTIONS, retriable=True))

    monkeypatch.setattr(INIT, staticmethod(retry))
    app = sent.app(plain)
    stopping = threading.Thread(target=lambda: asked.wait(30.0) and app.stop())
    stopping.start()
    with pytest.raises(EndpointError, match="has not ended the last process's transaction"):
        app.start()
    stopping.join(10.0)
    assert not stopping.is_alive()


def test_in_a_test_it_runs_without_transactions(caplog: pytest.LogCaptureFixture) -> None:
    """And says so."""
    app = ehkafka.App(group="g", start="earliest", exactly_once=True)
    app.handler("t", to="out")(plain)
    with ehkafka.testing.run(app) as test:
        test.send("t", b"x", key=b"k")
        test.wait()
        assert test.outputs("out")
    assert WITHOUT_TRANSACTIONS in caplog.text
