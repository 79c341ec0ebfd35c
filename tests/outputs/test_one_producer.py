"""A producer and its successors: its id at the start, what it says of itself, and how it is given up."""

from __future__ import annotations

import json
import time
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.events import (
    ConnectionProblem,
    ProducerNotOpened,
    ProducerPlain,
)
from ehkafka.outputs import one_producer, replacement
from ehkafka.outputs.one_producer import OneProducer
from tests.kit.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.outputs.one_producer import ClientCallbacks


def reported(state: str, epoch: int = 0) -> str:
    """Return statistics of librdkafka's that tell of a producer's id."""
    return json.dumps({"eos": {"idemp_state": state, "producer_epoch": epoch}})


class Client:
    """A client with some messages: what it calls, and what each call of `poll` answers."""

    def __init__(self, callbacks: ClientCallbacks) -> None:
        self.callbacks = callbacks
        self.calls: list[str] = []
        # Each answers one message, or raises.
        self.answers: deque[Callable[[], object]] = deque()
        # What a purge makes fail.
        self.in_flight: list[Callable[[], object]] = []

    def __len__(self) -> int:
        """Return how many messages have no answer."""
        return len(self.answers) + len(self.in_flight)

    def poll(self, timeout_s: float) -> int:
        """Deliver one report."""
        self.calls.append("poll")
        if self.answers:
            self.answers.popleft()()
        else:
            time.sleep(min(timeout_s, 0.002))
        return 0

    def purge(self, *, in_flight: bool = True) -> None:
        """Fail what has no answer."""
        self.calls.append("purge all" if in_flight else "purge queues")
        if in_flight:
            self.answers.extend(self.in_flight)
            self.in_flight.clear()


class Lab:
    """A producer whose clients are those above."""

    def __init__(self) -> None:
        self.events = Events()
        self.clients: list[Client] = []
        self.watches: list[list[str]] = []
        self.openings: deque[Exception] = deque()
        # What each client says of its id when it is opened.
        self.ids: deque[str] = deque()
        self.plain: list[bool] = []
        self.on_open: Callable[[ClientCallbacks], object] = lambda _callbacks: None
        self.producer = OneProducer(self.open, emit=self.events.append, make_watch=self.watch)

    def open(self, callbacks: ClientCallbacks, is_plain: bool) -> Any:
        """Open a client, or refuse."""
        if self.openings:
            raise self.openings.popleft()
        self.clients.append(Client(callbacks))
        self.plain.append(is_plain)
        callbacks.stats_cb(self.ids.popleft() if self.ids else GIVEN)
        self.on_open(callbacks)
        return self.clients[-1]

    def watch(self) -> Any:
        """Follow a credential, in words."""
        self.watches.append(seen := [])
        return SimpleNamespace(
            start=lambda _client: seen.append("start"),
            apply=lambda: seen.append("apply"),
            check_now=lambda: seen.append("check"),
            stop=lambda: seen.append("stop"),
        )


ASKING, GIVEN, RAISED = reported("RequestPID"), reported("Assigned"), reported("Assigned", 3)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Return a producer that is not started, and gives clients up soon."""
    monkeypatch.setattr(one_producer, "LAST_ANSWERS_S", 0.01)
    monkeypatch.setattr(replacement, "FIRST_S", 0.02)
    return Lab()


def test_a_start_without_an_id_tells_why_and_goes_on(lab: Lab) -> None:
    """What is refused for now is asked for again by the client; its reason is the health's, too."""
    lab.ids.append(ASKING)
    line = "GETPID [rdkafka#producer-1] [thrd:main]: Failed to acquire idempotence PID: Busy: retrying"
    lab.on_open = lambda callbacks: callbacks.logger.log(30, "%s", line)
    lab.producer.start(0.05)
    (event,) = lab.events.of(ConnectionProblem)
    assert "given the producer an ID: Failed to acquire idempotence PID: Busy" in event.error
    assert "Busy" in (lab.producer.problem or "")
    lab.clients[0].callbacks.stats_cb(GIVEN)
    assert lab.producer.has_id


def test_an_id_that_is_refused_for_good_is_an_error_of_the_start(lab: Lab) -> None:
    """Else it would be found out with the first record that fails."""
    refusal = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "not you", fatal=True)
    lab.ids.append(ASKING)
    lab.on_open = lambda callbacks: callbacks.error_cb(refusal)
    with pytest.raises(
        EndpointError, match=r"gives their producer no ID.*CLUSTER_AUTHORIZATION_FAILED \(not you\)"
    ):
        lab.producer.start()
    assert len(lab.clients) == 1


def test_a_broker_without_ids_gets_a_plain_producer(lab: Lab) -> None:
    """As the emulator's may be, and it is said."""
    refusal = KafkaError(KafkaError._UNSUPPORTED_FEATURE, "no such request", fatal=True)
    lab.ids.extend([ASKING, ASKING])
    lab.on_open = lambda callbacks: None if lab.plain[-1] else callbacks.error_cb(refusal)
    lab.producer.start()
    assert lab.plain == [False, True]
    assert lab.producer.has_id
    assert [event.reason for event in lab.events.of(ProducerPlain)] == ["no such request"]


def test_a_producer_that_is_given_up_is_polled_until_all_is_answered(lab: Lab) -> None:
    """Never flushed: `flush` loses reports at an error. What was on the wire may be answered first."""
    lab.producer.start()
    client, heard = lab.clients[0], []
    fatal = KafkaException(KafkaError(KafkaError._FATAL, "lost its place", fatal=True))

    def fail() -> None:
        raise fatal

    client.answers.extend([lambda: heard.append("acknowledged"), fail])
    client.in_flight.append(lambda: heard.append("purged"))
    client.calls.clear()
    lab.producer.renew()
    assert heard == ["acknowledged", "purged"]
    assert [call for call in client.calls if call != "poll"] == ["purge queues", "purge all"]
    assert client.calls[-1] == "poll"
    assert lab.producer.client is None
    lab.producer.open_when_due()
    assert lab.producer.client is lab.clients[1]
    assert (lab.watches[0][-1], lab.watches[1][0]) == ("stop", "start")


@pytest.mark.parametrize(
    ("code", "counts"), [(KafkaError._GAPLESS_GUARANTEE, False), (KafkaError._FATAL, True)]
)
def test_only_the_error_of_its_own_purge_puts_no_later_answer_in_doubt(
    lab: Lab, code: int, *, counts: bool
) -> None:
    """The first purge takes messages from the middle of a gapless producer, whose error ends no answer."""
    lab.producer.start()
    client, seen = lab.clients[0], list[bool]()
    error = KafkaError(code, "lost its place", fatal=True)
    client.answers.extend(
        (lambda: client.callbacks.error_cb(error), lambda: seen.append(lab.producer.has_ended))
    )
    lab.producer.renew(is_fault=False)
    assert (seen, lab.producer.has_ended) == ([counts], counts)
    assert ("lost its place" in (lab.producer.problem or "")) is counts


def test_a_producer_that_cannot_be_opened_again_is_no_end(lab: Lab) -> None:
    """The reason is reported once for each try, and is the health's; the next try opens another."""
    lab.producer.start()
    lab.openings.append(ConfigurationError("the credential is away"))
    lab.producer.renew()
    lab.producer.open_when_due()
    [event] = lab.events.of(ProducerNotOpened)
    assert event.error == lab.producer.problem == "the credential is away"
    assert 0 < lab.producer.due_s() <= event.retry_s
    lab.producer.open_when_due()  # not due yet
    assert lab.producer.client is None
    time.sleep(lab.producer.due_s())
    lab.producer.open_when_due()
    assert lab.producer.client is lab.clients[1]


def test_errors_of_the_client_are_reported_and_a_refused_key_is_read_again(lab: Lab) -> None:
    """The producer follows a rotating key as the consumer does."""
    lab.producer.start()
    lab.producer.serve(0.0)
    assert "apply" in lab.watches[0]
    lab.clients[0].callbacks.error_cb(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    assert "check" in lab.watches[0]
    (event,) = lab.events.of(ConnectionProblem)
    assert (event.code, event.error[:13], event.fatal) == ("_AUTHENTICATION", "dead letters:", False)
