"""Resuming: from the very next record, and without librdkafka's sleep when everything was paused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

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


class Client:
    """A consumer that stands at an offset and notes where it was sent."""

    def __init__(self, offset: int, *, refuses: bool = False) -> None:
        self.offset = offset
        self.refuses = refuses
        self.resumed: list[Any] = []
        self.sought: list[int] = []

    def resume(self, partitions: list[Any]) -> None:
        """Note it."""
        self.resumed += partitions

    def position(self, partitions: list[Any]) -> list[Any]:
        """Tell where it stands."""
        return [TopicPartition(each.topic, each.partition, self.offset) for each in partitions]

    def seek(self, partition: Any) -> None:
        """Note it, or refuse."""
        self.sought.append(partition.offset)
        if self.refuses:
            raise KafkaException("not now")


def test_a_seek_goes_only_where_both_sides_stand() -> None:
    """Behind control records, after a gap or before the first record the position is left alone."""
    agreed, ahead, unknown, fresh = Client(10), Client(12), Client(-1001), Client(10)
    for client in (agreed, ahead, unknown):
        resume(client, [epoch(10)])  # type: ignore[arg-type]
    resume(fresh, [epoch(None)])  # type: ignore[arg-type]
    assert [client.sought for client in (agreed, ahead, unknown, fresh)] == [[10], [], [], []]
    assert all(len(client.resumed) == 1 for client in (agreed, ahead, unknown, fresh))


def test_a_client_that_stands_before_what_was_received_is_sent_behind_it() -> None:
    """Its position stays where leader epochs go down, as in a log made anew: it would read them again."""
    client = Client(7)
    resume(client, [epoch(10)])  # type: ignore[arg-type]
    assert client.sought == [10]


def test_a_refused_seek_is_only_a_slow_resume() -> None:
    """A partition that is not fetched right now refuses; it is resumed all the same."""
    client = Client(10, refuses=True)
    resume(client, [epoch(10)])  # type: ignore[arg-type]
    assert len(client.resumed) == 1
