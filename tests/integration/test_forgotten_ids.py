"""A broker that forgets producers' ids: what it then takes as their first output, and what it refuses."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

import ehkafka
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.contract.outputs_order import problems
from tests.integration.sent import inputs_of
from tests.kit.brokers import running
from tests.kit.faults.kafka_proxy import KafkaProxy
from tests.kit.topic_read import read_messages
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker

# An id that has written nothing to a partition for so long is forgotten there; by default after a day.
FORGETS_MS = 1_000
CHECK_MS = 100
# OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID
CODES = (45, 47, 49, 59)


@pytest.fixture(scope="module")
def forgetting() -> Iterator[tuple[KafkaBroker, KafkaProxy]]:
    """Run a broker that forgets ids soon, and what makes it forget them at once."""
    forgets = {"producer.id.expiration.ms": FORGETS_MS, "producer.id.expiration.check.interval.ms": CHECK_MS}
    with KafkaProxy() as proxy:
        far = {"far": Listener(advertised_port=proxy.port)}
        with running(KafkaBroker(listeners=far, properties=forgets)) as broker:
            proxy.forward_to(broker.bootstrap_for("far"))
            yield broker, proxy


@pytest.fixture
def forgetful(forgetting: tuple[KafkaBroker, KafkaProxy]) -> KafkaBroker:
    """Return the broker."""
    return forgetting[0]


def test_none_passes_a_refused_output_of_an_id_that_the_broker_has_forgotten(
    stage_on: Callable[..., Any], forgetful: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes any sequence number then: what is ready behind the refused one has to wait for its answer."""
    # Each in a request of its own.
    monkeypatch.setattr("ehkafka.outputs.properties.BATCH_OUTPUTS_MAX", 1)
    monkeypatch.setattr("ehkafka.outputs.known_keys.COUNTS_S", FORGETS_MS / 2_000)
    stage = stage_on(forgetful, 1)
    out = f"{stage.topic}-out"
    forgetful.create_topic(out, 1, {"max.message.bytes": "200000"})

    def take_larger_ones(_record: Any, _attempt: int, _error: Exception) -> float:
        resource = ConfigResource(ResourceType.TOPIC, out)
        resource.add_incremental_config(
            ConfigEntry("max.message.bytes", "900000", incremental_operation=AlterConfigOpType.SET)
        )
        admin = AdminClient({"bootstrap.servers": forgetful.bootstrap})
        admin.incremental_alter_configs([resource])[resource].result(30.0)
        return 0.5

    def handle(batch: Any) -> None:
        for record in batch:
            too_large = record.offset() == 1
            record.send(b"%d" % record.offset() + (os.urandom(300_000) if too_large else b""))

    load = stage.load()
    # What is sent together is ready together.
    batches = {"batch_records_max": 2, "wait_s_max": 0.2, "producer": {"linger.ms": 300}}
    app = stage.app(handle, to=out, retry=take_larger_ones, **batches)
    app.start()
    load.put_all(b"key")
    stage.wait_until_committed({0: 1})
    time.sleep((FORGETS_MS + 5 * CHECK_MS) / 1000)
    load.put_all(b"key", b"key")
    stage.wait_until_committed({0: 3})
    app.stop()
    found = [message.value()[:1] for message in read_messages(forgetful.bootstrap, out)]
    assert found == [b"0", b"1", b"2"]


@pytest.mark.parametrize("code", CODES)
def test_outputs_of_a_producer_that_is_unknown_all_at_once_are_written_by_another_one(
    stage_on: Callable[..., Any], forgetting: tuple[KafkaBroker, KafkaProxy], code: int
) -> None:
    """In their order, and all of them."""
    broker, proxy = forgetting
    stage = stage_on(broker)
    out = f"{stage.topic}-out"
    broker.create_topic(out, 2)
    load = stage.load()
    load.produce(600)

    def handle(record: Any) -> bytes:
        time.sleep(0.001)
        return b"%d:%d" % (record.partition(), record.offset())

    app = stage.app(handle, to=out, endpoint=ehkafka.Endpoint.kafka(proxy.address))
    refused_before = proxy.refused_requests
    app.start()
    wait_until(lambda: app.snapshot().finished_records > 100)
    proxy.forget(code)
    stage.wait_until_committed(load.ends)
    app.stop()
    assert proxy.refused_requests > refused_before
    inputs = inputs_of(stage)
    outputs = [(message.key(), message.value()) for message in read_messages(broker.bootstrap, out)]
    found = problems(inputs, outputs)
    assert found == [], f"FACT: outputs are lost or out of order: {found[:20]}"
