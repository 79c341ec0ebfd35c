from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from confluent_kafka import TopicPartition

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.errors import EhkafkaError
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.server_identity import issue_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

IDENTITY = issue_identity()
RIGHT_KEY = "cmlnaHQtcmlnaHQtcmlnaHQtcmlnaHQ="
WRONG_KEY = "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc="


def secret(key: str) -> str:
    """Return a namespace-level connection string."""
    name = "Endpoint=sb://here.servicebus.windows.net/;SharedAccessKeyName=app"
    return f"{name};SharedAccessKey={key}"


@pytest.fixture(scope="module")
def guarded(without_broker: Callable[[EhkafkaError], NoReturn]) -> Iterator[KafkaBroker]:
    """Run a broker with a listener as Event Hubs has one: SASL PLAIN over TLS."""
    users = {"$ConnectionString": secret(RIGHT_KEY)}
    broker = KafkaBroker(listeners={"event_hubs": Listener(users=users, identity=IDENTITY)})
    try:
        broker.start()
    except EhkafkaError as error:
        without_broker(error)
    yield broker
    broker.stop()


@pytest.fixture
def endpoint(guarded: KafkaBroker, tmp_path: Path) -> Callable[[str], ehkafka.Endpoint]:
    """Return what makes an endpoint of a connection string with this key, moved to the test's broker."""
    authority = tmp_path / "ca.pem"
    authority.write_bytes(IDENTITY.ca_pem)
    moved = {
        "bootstrap.servers": guarded.bootstrap_for("event_hubs"),
        "ssl.ca.location": str(authority),
    }
    return lambda key: ehkafka.Endpoint.connection_string(secret(key), properties=moved)


def test_a_connection_string_opens_a_guarded_broker(
    guarded: KafkaBroker, stage_on: Callable[..., Any], endpoint: Callable[[str], ehkafka.Endpoint]
) -> None:
    """A connection string is all it takes; records come and commits go over SASL PLAIN and TLS."""
    stage = stage_on(guarded, 1)
    produce(guarded.bootstrap, stage.topic, [(b"k", b"v")] * 7)
    app = stage.app(endpoint=endpoint(RIGHT_KEY), consumer={"session.timeout.ms": 6000})
    app.start()
    stage.wait_until_committed({0: 7})
    assert RIGHT_KEY not in repr(app.endpoint) + repr(app.snapshot())


@pytest.mark.parametrize("is_endpoint", [True, False], ids=["endpoint", "properties"])
def test_a_drop_in_reads_and_commits_on_a_guarded_broker(
    guarded: KafkaBroker,
    stage_on: Callable[..., Any],
    endpoint: Callable[[str], ehkafka.Endpoint],
    tmp_path: Path,
    is_endpoint: bool,
) -> None:
    """`ehkafka.Consumer` by a connection string, and by the SASL settings that a program has."""
    stage = stage_on(guarded, 1)
    produce(guarded.bootstrap, stage.topic, [(b"k", b"v")] * 7)
    common = {"group.id": stage.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    choices: dict[str, Any] = {"endpoint": endpoint(RIGHT_KEY)}
    own = {
        "bootstrap.servers": guarded.bootstrap_for("event_hubs"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "$ConnectionString",
        "sasl.password": secret(RIGHT_KEY),
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }
    consumer = ehkafka.Consumer(common, **choices) if is_endpoint else ehkafka.Consumer(common | own)
    partition = TopicPartition(stage.topic, 0)
    with consumer:
        consumer.subscribe([stage.topic])
        found: list[Any] = []
        while len(found) < 7:
            found += consumer.consume(7, 1.0)
        assert [p.offset for p in consumer.commit(found[4], asynchronous=False)] == [5]
        assert [p.offset for p in consumer.committed([partition], timeout=10.0)] == [5]
        consumer.commit(found[6])
        assert RIGHT_KEY not in repr(consumer) + repr(vars(consumer)) + repr(vars(consumer._internals))
    assert stage.committed() == {0: 7}


def test_a_wrong_key_is_refused_with_a_clear_error_without_the_key(
    guarded: KafkaBroker,
    stage_on: Callable[..., Any],
    endpoint: Callable[[str], ehkafka.Endpoint],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A wrong key ends the start with an error about the credentials, and the key is nowhere in it."""
    stage = stage_on(guarded, 1)
    app = stage.app(
        endpoint=endpoint(WRONG_KEY), connect_s=3.0, consumer={"session.timeout.ms": 6000, "log_level": 6}
    )
    with pytest.raises(ehkafka.errors.EndpointError) as refused:
        app.start()
    shown = str(refused.value)
    assert "_AUTHENTICATION" in shown
    chain = "".join(map(repr, _with_causes(refused.value)))
    for text in (shown, chain, caplog.text):
        assert WRONG_KEY not in text
        assert secret(WRONG_KEY) not in text


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
