"""A log without a record up to its end: only an answered fetch that brought nothing shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.positions import empty_tails as module
from ehkafka.positions.empty_tails import Unparsed, empty_tails
from ehkafka.records import TopicPartition
from ehkafka.testing import EmbeddedBroker, VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


class Found:
    """A message, or the log's end."""

    def __init__(self, partition: int, error: object = None) -> None:
        self._partition, self._error = partition, error

    def topic(self) -> str:
        """Return the topic."""
        return "t"

    def partition(self) -> int:
        """Return the partition."""
        return self._partition

    def error(self) -> object:
        """Return what is no record."""
        return self._error


class Reader:
    """A consumer for which time passes while it waits; `answers` are (time, what came), `ends` are known."""

    def __init__(self, clock: VirtualClock, ends: dict[int, int], *answers: tuple[float, Found]) -> None:
        self.clock, self.ends, self.answers = clock, ends, list(answers)
        self.assigned: list[Any] = []
        self.paused: list[int] = []

    def assign(self, partitions: list[Any]) -> None:
        """Begin there."""
        self.assigned = [(one.partition, one.offset) for one in partitions]

    def consume(self, _number: int, timeout_s: float) -> list[Found]:
        """Return what has come by now."""
        self.clock.advance(timeout_s)
        due = [found for at_s, found in self.answers if at_s <= self.clock.now_s()]
        self.answers = [one for one in self.answers if one[1] not in due]
        return due

    def pause(self, partitions: list[Any]) -> None:
        """Note what is not read on."""
        self.paused += [one.partition for one in partitions]

    def get_watermark_offsets(self, partition: Any, *, cached: bool) -> tuple[int, int]:
        """Return what answers have said."""
        assert cached
        return -1001, self.ends.get(partition.partition, -1001)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """Return the clock that the reading goes by."""
    clock = VirtualClock()
    monkeypatch.setattr(module.time, "monotonic", clock.now_s)
    return clock


def test_an_answer_without_a_record_shows_that_there_is_none(clock: VirtualClock) -> None:
    """Beside one that has a record, however late, and one that was not answered."""
    reader: Any = Reader(clock, {0: 10, 1: 10}, (0.6, Found(1)))
    assert empty_tails(reader, {P0: (7, 10), P1: (3, 10), P2: (3, 10)}) == {P0}
    assert reader.assigned == [(0, 7), (1, 3), (2, 3)]


def test_an_end_before_the_one_that_is_meant_shows_nothing(clock: VirtualClock) -> None:
    """A leader that is new may not know the log's end yet; that the log ends is no record."""
    reader: Any = Reader(clock, {0: 9, 1: 10}, (0.2, Found(1, KafkaError(KafkaError._PARTITION_EOF))))
    assert empty_tails(reader, {P0: (7, 10), P1: (7, 10)}) == {P1}


def test_a_batch_that_cannot_be_read_is_no_empty_tail(clock: VirtualClock) -> None:
    """An error of a partition says that something is there."""
    reader: Any = Reader(clock, {0: 10, 1: 10}, (0.2, Found(1, KafkaError(KafkaError._BAD_COMPRESSION))))
    assert empty_tails(reader, {P0: (7, 10), P1: (7, 10)}) == {P0}


def test_what_the_client_cannot_parse_is_no_empty_tail(clock: VirtualClock) -> None:
    """It fetches that again and again; a long log's cut answers count as much, and are read no further."""
    unparsed = Unparsed()

    class Parser(Reader):
        def consume(self, number: int, timeout_s: float) -> list[Found]:
            if 1 not in self.paused:
                broken = int(self.clock.now_s() * 2)
                unparsed.properties["stats_cb"](f'{{"brokers": {{"b": {{"rxpartial": {broken}}}}}}}')
            return super().consume(number, timeout_s)

    reader: Any = Parser(clock, {0: 10, 1: 10})
    assert empty_tails(reader, {P0: (7, 10), P1: (7, 10)}, unparsed=unparsed) == set()
    reader = Parser(clock, {0: 10, 1: 10}, (clock.now_s() + 0.6, Found(1)))
    assert empty_tails(reader, {P0: (7, 10), P1: (7, 10)}, unparsed=unparsed) == {P0}


def test_it_ends_with_the_run(clock: VirtualClock) -> None:
    """Nothing is known then."""
    reader: Any = Reader(clock, {0: 10})
    assert empty_tails(reader, {P0: (7, 10)}, should_end=lambda: clock.now_s() > 0.3) == set()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return a broker with two partitions, one of which has records."""
    with EmbeddedBroker({"t": 2}) as broker:
        broker.produce("t", [(b"k", b"v")] * 3, partition=0)
        yield broker


def test_a_real_client_knows_a_logs_end_only_from_an_answer(broker: EmbeddedBroker) -> None:
    """So an end that is known tells that a fetch was answered: before that nothing is concluded."""
    from confluent_kafka import Consumer  # noqa: PLC0415 - this test alone has a client

    consumer = Consumer({**broker.consumer_properties, "group.id": "reads", "enable.partition.eof": True})
    try:
        assert empty_tails(consumer, {P0: (1, 3), P1: (0, 0)}) == {P1}
    finally:
        consumer.close()
