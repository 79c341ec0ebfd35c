"""Fixtures of tests on a real broker: a stage, a waiter, a broker that answers as it is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing.kafka.broker import KafkaBroker
from tests.integration.answering import Answering
from tests.integration.sent import Sent
from tests.kit.brokers import running
from tests.kit.stage import stage, stage_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kit.faults.kafka_proxy import KafkaProxy

__all__ = ["stage", "stage_on"]


@pytest.fixture
def answering(
    stage_on: Callable[..., Any], far_kafka: tuple[KafkaBroker, KafkaProxy]
) -> Callable[..., Answering]:
    """Return what makes one for a mode."""
    broker, proxy = far_kafka
    return lambda mode, **options: Answering(stage_on(broker, 4), proxy, mode, **options)


@pytest.fixture(scope="session")
def own_broker() -> Iterator[KafkaBroker]:
    """Run a broker that a test may kill, and that looks each second for transactions that are too old."""
    looks = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}
    with running(KafkaBroker(properties=looks)) as broker:
        yield broker


@pytest.fixture
def narrow(kafka: KafkaBroker, stage_on: Callable[..., Any]) -> Any:
    """Return a stage with a topic of one partition."""
    return stage_on(kafka, 1)


@pytest.fixture
def sent(stage: Any) -> Sent:
    """Return a stage with topics to send to."""
    return Sent(stage, {"max.message.bytes": "100000"})
