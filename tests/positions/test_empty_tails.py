"""A log without a record up to its end: only answered fetches that brought nothing show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.positions import empty_tails as module
from ehkafka.positions.client_fetches import ClientFetches
from ehkafka.positions.empty_tails import Tails, empty_tails
from ehkafka.records import TopicPartition
from ehkafka.testing import EmbeddedBroker
from tests.kit.clock import VirtualClock
from tests.kit.fetch_statistics import fetch_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    """A consumer for which time passes while it waits; `answers` are (time, what came), `ends` are known.

    Its fetches are answered from `answers_s` on. Each brings a part that cannot be parsed while `is_broken`.
    """

    def __init__(
        self,
        clock: VirtualClock,
        ends: dict[int, int],
        *answers: tuple[float, Found],
        answers_s: float = 0.0,
        is_broken: Callable[[Reader], bool] = lambda _reader: False,
    ) -> None:
        self.clock, self.ends, self.answers = clock, ends, list(answers)
        self._answers_s, self._is_broken = clock.now_s() + answers_s, is_broken
        self.fetches = ClientFetches()
        self._sent = self._unparsed = 0
        self.assigned: list[Any] = []
        self.paused: list[int] = []

    def assign(self, partitions: list[Any]) -> None:
        """Begin there."""
        self.assigned = [(one.partition, one.offset) for one in partitions]

    def consume(self, _number: int, timeout_s: float) -> list[Found]:
        """Return what has come by now."""
        self.clock.advance(timeout_s)
        if is_answered := self.clock.now_s() >= self._answers_s:
            self._sent += 2
            self._unparsed += self._is_broken(self)
        ends = self.ends if is_answered else {}
        self.fetches.take(fetch_statistics(ends, sent=self._sent, unparsed=self._unparsed))
        due = [found for at_s, found in self.answers if at_s <= self.clock.now_s()]
        self.answers = [one for one in self.answers if one[1] not in due]
        return due

    def pause(self, partitions: list[Any]) -> None:
        """Note what is not read on."""
        self.paused += [one.partition for one in partitions]

    def tails(self, *tails: tuple[TopicPartition, tuple[int, int]], **how: Any) -> Tails:
        """Return what reading these shows."""
        return empty_tails(self, dict(tails), self.fetches, **how)  # type: ignore[arg-type]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """Return the clock that the reading goes by."""
    clock = VirtualClock()
    monkeypatch.setattr(module.time, "monotonic", clock.now_s)
    return clock


def test_answers_without_a_record_show_that_there_is_none(clock: VirtualClock) -> None:
    """Beside one that has a record, and one that was not answered."""
    reader = Reader(clock, {0: 10, 1: 10}, (0.2, Found(1)))
    assert reader.tails((P0, (7, 10)), (P1, (3, 10)), (P2, (3, 10))).empty == {P0}
    assert reader.assigned == [(0, 7), (1, 3), (2, 3)]


def test_a_fetch_that_is_late_shows_nothing_before_it_is_answered(clock: VirtualClock) -> None:
    """However long it takes: the record comes with its answer."""
    reader = Reader(clock, {0: 10}, (3.0, Found(0)), answers_s=3.0)
    assert reader.tails((P0, (7, 10)))[1:] == (set(), set())
    reader = Reader(clock, {0: 10}, answers_s=60.0)
    assert reader.tails((P0, (7, 10)))[1:] == (set(), set())


def test_an_end_before_the_one_that_is_meant_shows_nothing(clock: VirtualClock) -> None:
    """A leader that is new may not know the log's end yet; that the log ends is no record."""
    reader = Reader(clock, {0: 9, 1: 10}, (0.2, Found(1, KafkaError(KafkaError._PARTITION_EOF))))
    assert reader.tails((P0, (7, 10)), (P1, (7, 10))).empty == {P1}


def test_a_batch_that_cannot_be_read_is_no_empty_tail(clock: VirtualClock) -> None:
    """An error of a partition says that something is there."""
    reader = Reader(clock, {0: 10, 1: 10}, (0.2, Found(1, KafkaError(KafkaError._BAD_COMPRESSION))))
    assert reader.tails((P0, (7, 10)), (P1, (7, 10))).empty == {P0}


def test_what_the_client_cannot_parse_is_no_empty_tail(clock: VirtualClock) -> None:
    """It fetches that again and again; a long log's cut answers count as much, and are read no further."""
    reader = Reader(clock, {0: 10}, is_broken=lambda _reader: True)
    assert reader.tails((P0, (7, 10)))[1:] == (set(), {P0})
    late = clock.now_s() + 0.6
    reader = Reader(clock, {0: 10, 1: 10}, (late, Found(1)), is_broken=lambda r: 1 not in r.paused)
    assert reader.tails((P0, (7, 10)), (P1, (7, 10))).empty == {P0}


def test_it_ends_with_the_run(clock: VirtualClock) -> None:
    """Nothing is known then."""
    reader = Reader(clock, {0: 10})
    assert reader.tails((P0, (7, 10)), should_end=lambda: clock.now_s() > 0.15).empty == set()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return a broker with two partitions, one of which has records."""
    with EmbeddedBroker({"t": 2}) as broker:
        broker.produce("t", [(b"k", b"v")] * 3, partition=0)
        yield broker


def test_a_real_client_tells_of_its_fetches(broker: EmbeddedBroker) -> None:
    """A log that ends is distinguished from one that has records."""
    from confluent_kafka import Consumer  # noqa: PLC0415 - this test alone has a client

    fetches = ClientFetches()
    properties = {**broker.consumer_properties, "group.id": "reads", "enable.partition.eof": True}
    consumer = Consumer({**properties, **fetches.properties})
    try:
        assert empty_tails(consumer, {P0: (1, 3), P1: (0, 0)}, fetches).empty == {P1}
    finally:
        consumer.close()
