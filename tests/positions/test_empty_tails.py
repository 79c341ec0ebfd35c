"""A log without a record up to its end: only answered fetches that brought nothing show it."""

from __future__ import annotations

from types import SimpleNamespace
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


def found(partition: int, code: int | None = None) -> Any:
    """Return a record, or what is no record."""
    error = None if code is None else KafkaError(code)
    return SimpleNamespace(topic=lambda: "t", partition=lambda: partition, error=lambda: error)


class Reader:
    """A consumer for which time passes while it waits; `answers` are (time, what came), `ends` are known.

    Its fetches are answered from `answers_s` on. Each brings a part that cannot be parsed while `is_broken`.
    """

    def __init__(
        self,
        clock: VirtualClock,
        ends: dict[int, int],
        *answers: tuple[float, Any],
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

    def consume(self, number: int, timeout_s: float) -> list[Any]:
        """Return what has come by now."""
        self.clock.advance(timeout_s)
        if is_answered := self.clock.now_s() >= self._answers_s:
            self._sent += 2
            self._unparsed += self._is_broken(self)
        ends = self.ends if is_answered else {}
        self.fetches.take(fetch_statistics(ends, sent=self._sent, unparsed=self._unparsed))
        due = [one for at_s, one in self.answers if at_s <= self.clock.now_s()][:number]
        self.answers = [(at_s, one) for at_s, one in self.answers if one not in due]
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


@pytest.mark.parametrize(
    ("ends", "answers", "answers_s", "empty", "full"),
    [
        # Next to one that has a record, and one that was not answered.
        ({0: 10, 1: 10}, [(0.2, found(1))], 0.0, {P0}, {P1}),
        # A fetch that is late shows nothing before it is answered, however long that takes.
        ({0: 10}, [(3.0, found(0))], 3.0, set(), {P0}),
        ({0: 10}, [], 60.0, set(), set()),
        # A leader that is new may not know the log's end yet; that the log ends is no record.
        ({0: 9, 1: 10}, [(0.2, found(1, KafkaError._PARTITION_EOF))], 0.0, {P1}, set()),
        # An error of a partition says that something may be there, and shows none.
        ({0: 10, 1: 10}, [(0.2, found(1, KafkaError._BAD_COMPRESSION))], 0.0, {P0}, set()),
    ],
    ids=["a record", "late", "silent", "an end before", "a broken batch"],
)
def test_only_answers_without_a_record_show_that_there_is_none(
    clock: VirtualClock,
    ends: Any,
    answers: list[Any],
    answers_s: float,
    empty: set[TopicPartition],
    full: set[TopicPartition],
) -> None:
    """It is read from each partition's own offset on."""
    reader = Reader(clock, ends, *answers, answers_s=answers_s)
    tails = reader.tails((P0, (7, 10)), (P1, (3, 10)), (P2, (3, 10)))
    assert tails[1:] == (empty, set(), full)
    assert reader.assigned == [(0, 7), (1, 3), (2, 3)]


def test_what_the_client_cannot_parse_is_no_empty_tail(clock: VirtualClock) -> None:
    """It fetches that again and again; a long log's cut answers count as much, and are read no further."""
    reader = Reader(clock, {0: 10}, is_broken=lambda _reader: True)
    assert reader.tails((P0, (7, 10)))[1:] == (set(), {P0}, set())
    late = clock.now_s() + 0.6
    reader = Reader(clock, {0: 10, 1: 10}, (late, found(1)), is_broken=lambda r: 1 not in r.paused)
    assert reader.tails((P0, (7, 10)), (P1, (7, 10)))[1:] == ({P0}, set(), {P1})
    # Next to one whose transaction is open.
    late = clock.now_s() + 0.6
    reader = Reader(clock, {0: 9, 1: 10}, (late, found(1)), is_broken=lambda r: 1 not in r.paused)
    assert reader.tails((P0, (7, 10)), (P1, (7, 10)))[1:] == (set(), set(), {P1})


def test_a_record_behind_others_that_came_at_once_is_seen(clock: VirtualClock) -> None:
    """In the very look that would have shown its log's end: a full hand may have left something behind."""
    at_s = clock.now_s() + 0.4
    reader = Reader(clock, {0: 10, 1: 10}, *[(at_s, found(partition)) for partition in (1, 1, 0)])
    assert reader.tails((P0, (7, 10)), (P1, (7, 10))).empty == set()


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
