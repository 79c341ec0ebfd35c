"""Outputs that the broker refuses one after the other, and whose records become letters for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import OutputRefused, ProducerReplaced
from ehkafka.testing import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSED = KafkaError.MSG_SIZE_TOO_LARGE
RECORDS = 12


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with a topic for outputs and one for letters."""
    lab.broker.create_topic("out", 1)
    lab.broker.create_topic("dead", 1)
    return lab


def test_a_broker_that_refuses_every_output_does_not_slow_the_next_refusal_down(
    out: Any, events: Any, wait_for: Any
) -> None:
    """A refusal is the message's and no fault of its producer's, which goes on without a wait."""
    out.produce(" ".join(f"key{number}" for number in range(RECORDS)))
    retry = ehkafka.Retry(attempts=3, first_s=0.001, max_s=0.001)
    app = out.app(None)
    app.add_hook(events)

    @app.handler("t", to="out", retry=retry, on_failure=ehkafka.Skip())
    def handle(record: Any) -> str:
        return str(record.offset())

    out.broker.fail_next(ApiKey.PRODUCE, *[REFUSED] * 200)
    began_s = time.monotonic()
    app.start()
    wait_for(lambda: out.committed() == RECORDS)
    # Waits would be a second, two, four … after three refusals each.
    assert time.monotonic() - began_s < 15.0
    app.stop()
    assert sum(refused.attempt == 3 for refused in events.of(OutputRefused)) == RECORDS
    lost = [event for event in events.of(ProducerReplaced) if "lost its place" in event.reason]
    assert lost == []


def test_an_output_of_one_record_of_a_batch_makes_a_letter_of_that_one_alone(
    out: Any, wait_for: Any, read_topic: Callable[..., Any]
) -> None:
    """`record.send` says whose it is; what the batch returns is of all of them."""
    out.produce("a b c")
    app = out.app(None)

    @app.batch_handler(
        "t", to="out", batch_records_max=3, wait_s_max=5.0, on_failure=ehkafka.DeadLetter("dead")
    )
    def handle(batch: Any) -> None:
        for record in batch:
            if record.key() == b"b":
                record.send("refused")

    app.start()
    out.broker.fail_next(ApiKey.PRODUCE, REFUSED, REFUSED)
    wait_for(lambda: out.committed() == 3)
    app.stop()
    assert [letter.key() for letter in read_topic("dead", 1)] == [b"b"]
