"""OpenTelemetry's instrumentation of confluent-kafka, by a class of the same shape as its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka.cimpl import Consumer as KafkaConsumer

import ehkafka
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a class above `confluent_kafka.Consumer`, as `instrument()` does; return what it has seen."""
    seen: list[str] = []

    class AutoInstrumentedConsumer(KafkaConsumer):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.config = arguments[0]

        def poll(self, timeout: float = -1) -> Any:
            message = super().poll(timeout)
            seen.extend(["poll"] * (message is not None))
            return message

        def close(self) -> None:
            seen.append("close")
            super().close()

    AutoInstrumentedConsumer.__module__ = "opentelemetry.instrumentation.confluent_kafka"
    monkeypatch.setattr(confluent_kafka, "Consumer", AutoInstrumentedConsumer)
    return seen


class Own(ehkafka.Consumer):
    """A program's own class, with arguments of its own."""

    def __init__(self, config: dict[str, Any], *, closes: bool) -> None:
        super().__init__(config)
        self.closes = closes

    def poll(self, *, limit_s: float) -> Any:  # type: ignore[override]
        """Poll by another argument."""
        return super().poll(limit_s)


@pytest.mark.parametrize("is_own", [True, False])
def test_spans_survive_the_changed_import(broker: EmbeddedBroker, spans: list[str], *, is_own: bool) -> None:
    """It is on top of the drop-in and below the program's class; commits are ours all the same."""
    properties = broker.consumer_properties | {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer: Any = Own(properties, closes=True) if is_own else ehkafka.Consumer(properties, contiguous=True)
    assert isinstance(consumer, Own if is_own else ehkafka.Consumer)
    assert consumer.config is properties
    with consumer:
        consumer.subscribe(["t"])
        message = wait_until(lambda: consumer.poll(limit_s=0.1) if is_own else consumer.poll(0.1))
        consumer.commit(message)
    assert spans == ["poll", "close"]
    assert broker.committed("g", "t") == {0: 1}


def test_another_class_in_its_place_is_left_alone(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may have put the drop-in itself there."""
    monkeypatch.setattr(confluent_kafka, "Consumer", ehkafka.Consumer)
    consumer = ehkafka.Consumer(broker.consumer_properties | {"group.id": "g"})
    assert type(consumer) is ehkafka.Consumer
    consumer.close()
