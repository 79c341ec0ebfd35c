"""What reads a topic to its end: to where the log ended when it was opened, and not all at the same pace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from ehkafka import Endpoint
from ehkafka.checks.target import Target
from ehkafka.checks.topic_reader import TopicReader
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.errors import EndpointError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with ten records in each of two partitions."""
    with EmbeddedBroker({"t": 2}) as broker:
        write(broker, FIRST, 10)
        write(broker, SECOND, 10)
        yield broker


def write(broker: EmbeddedBroker, partition: TopicPartition, count: int) -> None:
    """Write so many records."""
    broker.produce(partition.topic, [(b"k", b"v")] * count, partition=partition.partition)


def reader_of(broker: EmbeddedBroker, *, to_end: bool = True) -> TopicReader:
    """Return what reads them."""
    target = Target(endpoint=Endpoint.kafka(broker.bootstrap))
    return TopicReader(target, "t", begin="earliest", timeout_s=5.0, to_end=to_end)


def test_what_is_written_later_is_not_read(broker: EmbeddedBroker) -> None:
    """A redrive merges what was there at the same time; of one partition more would be out of order."""
    with reader_of(broker) as reader:
        assert (reader.begins, reader.ends) == ({FIRST: 0, SECOND: 0}, {FIRST: 10, SECOND: 10})
        write(broker, FIRST, 5)
        places = [(one.partition(), one.offset()) for batch in reader.batches() for one in batch]
        assert sorted(places) == [(number, offset) for number in range(2) for offset in range(10)]
        assert reader.unread == {}


def test_a_log_that_seems_to_end_early_is_read_on(broker: EmbeddedBroker) -> None:
    """A leader that is new may know an earlier end for a moment: what is there would be passed as read."""

    def ends_at(offset: int) -> Mock:
        error = KafkaError(KafkaError._PARTITION_EOF)
        return Mock(topic=lambda: "t", partition=lambda: 0, offset=lambda: offset, error=lambda: error)

    with reader_of(broker) as reader:
        assert reader._taken([ends_at(7)]) == ([], None)
        assert reader.unread == {FIRST: 0, SECOND: 0}
        assert reader._taken([ends_at(10)]) == ([], None)
        assert reader.unread == {SECOND: 0}


def test_a_partition_that_is_held_is_not_read(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is lost: it is read on from where it was held."""
    monkeypatch.setattr("ehkafka.checks.topic_reader.BATCH_RECORDS", 1)
    with reader_of(broker) as reader:
        found: list[int] = []
        for batch in reader.batches():
            found += [one.partition() for one in batch]
            if len(found) == 1:
                first = found[0]
                reader.hold({TopicPartition("t", first)})
            if len(found) == 11:
                assert set(found[1:]) == {1 - first}
                reader.hold(())
        assert found[11:] == [first] * 9


def test_of_a_log_that_is_silent_what_is_not_held_is_named(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reader's owner does between two batches is not waited for."""
    monkeypatch.setattr("ehkafka.checks.topic_reader._PATIENCE", 0.1)
    with reader_of(broker) as reader:
        batches = reader.batches()
        reader._inspection.consumer().assign([])
        reader.hold({FIRST})
        for _ in range(3):
            assert next(batches) == []
            time.sleep(0.3)
        with pytest.raises(EndpointError, match=r"No record of t\[1\] arrived from offset 0 within 0\.5 s"):
            list(batches)


def test_a_reader_without_an_end_waits_for_the_next_record_as_long_as_it_takes(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was there is read, so silence is no fault of a log."""
    monkeypatch.setattr("ehkafka.checks.topic_reader._PATIENCE", 0)
    with reader_of(broker, to_end=False) as reader:
        batches = reader.batches()
        count = 0
        while count < 20:
            count += len(next(batches))
        assert [next(batches) for _ in range(3)] == [[], [], []]
