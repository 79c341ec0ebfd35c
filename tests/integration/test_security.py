from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

import ehkafka
from ehkafka.embedded.topics import produce
from tests.kit.brokers import KEY, WRONG_KEY, connection_string, server_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker


@pytest.fixture
def endpoint(kafka: KafkaBroker, tmp_path: Path) -> Callable[[str], ehkafka.Endpoint]:
    """Return what makes an endpoint of a connection string with this key, moved to the test's broker."""
    authority = tmp_path / "ca.pem"
    authority.write_bytes(server_identity().ca_pem)
    moved = {
        "bootstrap.servers": kafka.bootstrap_for("event_hubs"),
        "ssl.ca.location": str(authority),
    }
    return lambda key: ehkafka.Endpoint.connection_string(connection_string(key), properties=moved)


@pytest.mark.parametrize("is_endpoint", [True, False], ids=["endpoint", "properties"])
def test_a_drop_in_reads_and_commits_on_a_guarded_broker(
    kafka: KafkaBroker,
    stage_on: Callable[..., Any],
    endpoint: Callable[[str], ehkafka.Endpoint],
    tmp_path: Path,
    is_endpoint: bool,
) -> None:
    """`ehkafka.Consumer` by a connection string, and by the SASL settings that a program has."""
    stage = stage_on(kafka, 1)
    produce(kafka.bootstrap, stage.topic, [(b"k", b"v")] * 7)
    common = {"group.id": stage.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    choices: dict[str, Any] = {"endpoint": endpoint(KEY)}
    own = {
        "bootstrap.servers": kafka.bootstrap_for("event_hubs"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "$ConnectionString",
        "sasl.password": connection_string(KEY),
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
        assert KEY not in repr(consumer) + repr(vars(consumer)) + repr(vars(consumer._internals))
    assert stage.committed() == {0: 7}


def test_a_wrong_key_is_refused_with_a_clear_error_without_the_key(
    kafka: KafkaBroker,
    stage_on: Callable[..., Any],
    endpoint: Callable[[str], ehkafka.Endpoint],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A wrong key ends the start with an error about the credentials, and the key is nowhere in it."""
    stage = stage_on(kafka, 1)
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
        assert connection_string(WRONG_KEY) not in text


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
