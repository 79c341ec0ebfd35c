"""What a stop commits of an app that sends exactly once."""

from __future__ import annotations

import os
from typing import Any

import pytest
from confluent_kafka import Producer

from ehkafka import Retry, Skip
from ehkafka.events import OutputRefused
from tests.integration.sent import TIMEOUT_S, Sent, place_of
from tests.kit.events import Events
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.broker


def test_a_stop_waits_for_the_decision_on_a_refused_output(sent: Sent) -> None:
    """It is refused again after its wait, and skipped: nothing is left to the next start."""
    large = os.urandom(150_000)

    def handler(record: Any) -> Any:
        return large if place_of(record) == "0:1" else place_of(record)

    heard = Events()
    app = sent.app(handler, on_failure=Skip(), retry=Retry(attempts=2, first_s=2.0))
    app.add_hook(heard)
    sent.load.produce(100)
    app.start()
    wait_until(lambda: heard.of(OutputRefused), timeout_s=TIMEOUT_S)
    app.stop()
    sent.stage.wait_until_committed(sent.load.ends, 0.0)
    sent.check(("0:1",))


def test_a_stop_saves_all_that_is_finished_between_the_markers_of_transactions(sent: Sent) -> None:
    """Markers have offsets and are no records: a record that waits has finished ones above it."""
    producer = Producer({"bootstrap.servers": sent.stage.broker.bootstrap, "transactional.id": sent.out})
    producer.init_transactions(TIMEOUT_S)

    def produce(*keys: str) -> None:
        producer.begin_transaction()
        for key in keys:
            producer.produce(sent.stage.topic, key, key, 0)
        producer.commit_transaction(TIMEOUT_S)

    def handler(record: Any) -> str:
        if record.key() == b"stuck":
            raise ValueError("stuck")
        return place_of(record)

    app = sent.app(handler, workers=4, retry=Retry(first_s=60.0, max_s=60.0))
    produce("stuck", "first")
    app.start()
    wait_until(lambda: len(sent.outputs()) == 1, timeout_s=TIMEOUT_S)
    for number in range(3):
        produce(f"then-{number}")
        wait_until(lambda count=number + 2: len(sent.outputs()) == count, timeout_s=TIMEOUT_S)  # type: ignore[misc]
    app.stop()
