"""Fixtures of tests about one embedded broker: it, a consumer and a commit."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run one broker with the topic `orders` of 4 partitions."""
    with EmbeddedBroker({"orders": 4}) as running:
        yield running


@pytest.fixture
def consumer() -> Callable[..., AbstractContextManager[Consumer]]:
    """Open a quiet consumer of group `g` that reads from the beginning and never commits by itself."""

    @contextmanager
    def opened(broker: EmbeddedBroker, **properties: object) -> Iterator[Consumer]:
        settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        client = Consumer({**broker.consumer_properties, **settings, "log_level": 0, **properties})
        try:
            yield client
        finally:
            client.close()

    return opened


@pytest.fixture
def commit() -> Callable[..., float]:
    """Commit one offset of `orders` synchronously; the result is how long it took."""

    def committed(client: Consumer, offset: int, partition: int = 0) -> float:
        began_s = time.monotonic()
        client.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)
        return time.monotonic() - began_s

    return committed
