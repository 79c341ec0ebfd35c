"""Resuming: from the very next record, and without librdkafka's sleep when everything was paused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ehkafka.intake.resume import resume
from ehkafka.lanes.epoch import Epoch
from ehkafka.records import TopicPartition as Name
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing import EmbeddedBroker

ROUNDS = 4
# With nothing to fetch, the broker's thread is asleep by then, for up to a second.
ASLEEP_S = 0.2


def epoch(received_next: int | None) -> Epoch:
    """Return an epoch that has received up to there."""
    found = Epoch(Name("t", 0), 1, {})
    found.received.next_offset = received_next
    return found


def test_the_next_record_comes_soon_after_everything_was_paused(
    embedded_broker_factory: Callable[..., EmbeddedBroker],
) -> None:
    """Every resume finds the broker's thread asleep and wakes it; no offset is skipped or repeated."""
    broker = embedded_broker_factory({"t": 1})
    broker.produce("t", [("k", b"x")] * 1_000, partition=0)
    # A fetch that is under way at the pause is over long before the resume.
    quick = {"group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20, "log_level": 0}
    consumer = Consumer({**broker.consumer_properties, **quick})
    partition = TopicPartition("t", 0)
    consumer.subscribe(["t"])
    offsets: list[int] = []
    waits_s: list[float] = []

    def take(count: int) -> None:
        wanted = len(offsets) + count

        def consume() -> None:
            for message in consumer.consume(min(50, wanted - len(offsets)), 0.01):
                assert message.error() is None, message.error()
                offsets.append(message.offset() or 0)

        wait_until(lambda: len(offsets) >= wanted, meanwhile=consume)

    take(50)
    for _ in range(ROUNDS):
        consumer.pause([partition])
        until_s = time.monotonic() + ASLEEP_S
        while time.monotonic() < until_s:
            assert not consumer.consume(1, 0.01)
        resume(consumer, [epoch(len(offsets))])
        began_s = time.monotonic()
        take(1)
        waits_s.append(time.monotonic() - began_s)
        take(50)
    consumer.close()
    assert offsets == list(range(len(offsets)))
    # Without the seek even the quickest waits for what is left of the sleep, half a second.
    assert min(waits_s) < 0.2, waits_s


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize(
    ("position", "received_next", "sought"),
    [(10, 10, True), (7, 10, True), (12, 10, False), (-1001, 10, False), (10, None, False)],
    ids=["agreed", "before it", "behind control records", "unknown", "before the first record"],
)
def test_a_seek_goes_only_where_both_sides_stand(
    position: int, received_next: int | None, *, sought: bool, refuses: bool
) -> None:
    """Or behind what was received, where leader epochs have gone down; a refusal is only a slow resume."""
    client: Any = Mock()
    client.position = lambda asked: [TopicPartition(one.topic, one.partition, position) for one in asked]
    client.seek.side_effect = KafkaException("not now") if refuses else None
    resume(client, [epoch(received_next)])
    assert [call.args[0].offset for call in client.seek.call_args_list] == ([10] if sought else [])
    assert client.resume.call_count == 1
