"""The start of an app's first producer: what the broker refuses, and what the start waits for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem
from ehkafka.transactions import hanging
from ehkafka.transactions import producer as producer_module
from ehkafka.transactions.producer import START_S, TransactionalProducer
from tests.transactions.loop_bench import Broker, Client

TIMEOUT_S = 10.0
_WATCH: Any = SimpleNamespace(start=lambda _client: None, stop=lambda: None)
_ENDS_LAST = KafkaError.CONCURRENT_TRANSACTIONS


class Start:
    """One start on a scripted broker, by a clock that each `init_transactions` moves by a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.broker = Broker()
        self.broker.on_call = self.called
        self.events: list[Any] = []
        self.opened = 0
        self.stops_at_s = float("inf")
        time = SimpleNamespace(monotonic=lambda: self.now_s, sleep=lambda _s: None)
        monkeypatch.setattr(producer_module, "time", time)
        self.producer = TransactionalProducer(
            self.open,
            emit=self.events.append,
            make_watch=lambda: _WATCH,
            transactional_id="ehkafka-g-a-1",
            timeout_s=TIMEOUT_S,
            is_stopping=lambda: self.now_s >= self.stops_at_s,
        )

    def open(self, callbacks: Any, limit: Any) -> Any:
        """Open a client."""
        self.opened += 1
        return Client(self.broker, callbacks["on_delivery"], limit)

    def called(self, _name: str) -> None:
        """Let a second go by."""
        self.now_s += 1.0

    def fails(self, code: int, times: int, *, retriable: bool = True) -> None:
        """Have so many calls fail."""
        self.broker.fails["init"] = [KafkaException(KafkaError(code, retriable=retriable))] * times

    def run(self) -> None:
        """Start."""
        self.producer.start_app({}, lambda *_report: None)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Return a start."""
    return Start(monkeypatch)


def test_a_start_waits_until_the_transaction_of_the_last_process_has_ended(start: Start) -> None:
    """It takes longer than a producer has to get its id, and the log and health name the reason."""
    start.fails(_ENDS_LAST, 25)
    start.run()
    assert start.now_s == 26.0
    assert start.producer.client is not None
    [reported] = start.events
    assert isinstance(reported, ConnectionProblem)
    assert "exactly_once waits up to 40 s for the transactional id 'ehkafka-g-a-1'" in reported.sentence()
    assert reported.sentence().endswith("check that all brokers are up. The client keeps retrying.")
    assert start.producer.start_problem is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (_ENDS_LAST, "has not ended the last process's transaction"),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, "gave no answer"),
        (KafkaError._TIMED_OUT, "gave no answer"),
    ],
)
def test_a_start_that_waits_in_vain_says_for_what(start: Start, code: int, words: str) -> None:
    """After the transaction's time-out and what a cluster needs for another coordinator."""
    start.fails(code, 1000)
    with pytest.raises(
        EndpointError, match=f"the broker {words} in 4[0-9] s, for .* 'ehkafka-g-a-1'"
    ) as failed:
        start.run()
    assert "refuses transactions" not in str(failed.value)
    assert start.now_s >= TIMEOUT_S + START_S
    assert start.producer.client is None
    assert failed.value.exit_code == 3


def test_a_refusal_ends_the_start_at_once(start: Start) -> None:
    """A wait would not help against an old broker, or missing rights."""
    start.fails(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 1, retriable=False)
    with pytest.raises(EndpointError, match=r"refuses transactions: TRANSACTIONAL_ID_AUTH.* 2\.5 or newer"):
        start.run()
    assert start.now_s == 1.0
    assert start.events == []


def test_a_client_that_hangs_is_replaced(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one may find a coordinator that the first one waits for without end."""
    monkeypatch.setattr(producer_module, "HANGS_S", 0.05)
    monkeypatch.setattr(hanging, "CHECK_S", 0.01)
    forever = threading.Event()

    def called(_name: str) -> None:
        start.now_s += 10.0
        if start.opened == 1:
            forever.wait(30.0)

    start.broker.on_call = called
    start.run()
    assert start.opened == 2
    forever.set()


def test_a_stop_ends_the_wait(start: Start) -> None:
    """But only a long one: a start that takes its usual time ends by itself, and the app stops after it."""
    start.fails(_ENDS_LAST, 1000)
    start.stops_at_s = 12.0
    with pytest.raises(EndpointError, match="has not ended the last process's transaction in 12 s"):
        start.run()
    assert start.now_s == 12.0
    start.now_s = 0.0
    start.stops_at_s = 0.0
    start.fails(_ENDS_LAST, 2)
    start.run()
    assert start.producer.client is not None


def test_an_interrupted_start_closes_its_client(start: Start) -> None:
    """Ctrl-C may come at any place of it."""

    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    start.broker.on_call = interrupted
    with pytest.raises(KeyboardInterrupt):
        start.run()
    assert start.producer.client is None
