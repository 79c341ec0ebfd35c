"""Fixtures of tests on a real broker: a stage, a waiter, a broker that answers as it is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.answering import Answering
from tests.kit.stage import eventually, stage, stage_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.faults.kafka_proxy import KafkaProxy

__all__ = ["eventually", "stage", "stage_on"]


@pytest.fixture
def answering(
    stage_on: Callable[..., Any], far_kafka: tuple[KafkaBroker, KafkaProxy]
) -> Callable[..., Answering]:
    """Return what makes one for a mode."""
    broker, proxy = far_kafka
    return lambda mode, **options: Answering(stage_on(broker, 4), proxy, mode, **options)
