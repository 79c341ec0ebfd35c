"""Fixtures of tests on a real broker: a stage, a waiter, a broker that answers as it is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ehkafka.errors import EhkafkaError
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.integration.answering import Answering
from tests.kit.answering_proxy import AnsweringProxy
from tests.kit.stage import eventually, stage, stage_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["eventually", "stage", "stage_on"]


@pytest.fixture(scope="module")
def answering_broker(
    without_broker: Callable[[EhkafkaError], NoReturn],
) -> Iterator[tuple[KafkaBroker, AnsweringProxy]]:
    """Run a broker, and what answers for it."""
    with AnsweringProxy() as proxy:
        broker = KafkaBroker(listeners={"far": Listener(advertised_port=proxy.port)})
        try:
            broker.start()
        except EhkafkaError as error:
            without_broker(error)
        proxy.forward_to(broker.bootstrap_for("far"))
        yield broker, proxy
        broker.stop()


@pytest.fixture
def answering(
    stage_on: Callable[..., Any], answering_broker: tuple[KafkaBroker, AnsweringProxy]
) -> Iterator[Callable[[str], Answering]]:
    """Return what makes one for a mode; the proxy is calm afterwards."""
    broker, proxy = answering_broker
    proxy.calm()
    yield lambda mode: Answering(stage_on(broker, 4), proxy, mode)
    proxy.calm()
