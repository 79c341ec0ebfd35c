"""Where partitions begin; those wait whose broker does not say it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import EndpointError
from ehkafka.positions.finder import OLD_COMMIT, UNDECIDED, Lookups, PositionFinder
from ehkafka.records import TopicPartition
from tests.kit.clock import VirtualClock

PLACES = [TopicPartition("t", number) for number in range(3)]
# What a client hears while a leader moves, a broker starts, or none answers.
PASSING = [
    *(KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.FENCED_LEADER_EPOCH),
    *(KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
    *(KafkaError.REQUEST_TIMED_OUT, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE),
    KafkaError.UNKNOWN_TOPIC_OR_PART,
]


class Refusing:
    """A consumer whose group has commits of 5 in some partitions, and whose leaders refuse in others."""

    def __init__(self, code: int, *refused: int, committed: tuple[int, ...] = ()) -> None:
        self.error = KafkaError(code)
        self.refused = {*refused}
        self._committed = committed
        self.asked: list[set[int]] = []

    def committed(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return the commits there are."""
        return [
            KafkaPartition(one.topic, one.partition, 5 if one.partition in self._committed else -1001)
            for one in asked
        ]

    def offsets_for_times(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return the logs' bounds, 0 and 7."""
        self.asked.append({one.partition for one in asked})
        if self.refused & self.asked[-1]:
            raise KafkaException(self.error)
        return [
            KafkaPartition(one.topic, one.partition, 0 if one.offset == OFFSET_BEGINNING else 7)
            for one in asked
        ]


def finder() -> PositionFinder:
    """Return one whose app starts at the log's end."""
    return PositionFinder(lambda _topic: "latest", emit=lambda _: None, count=lambda *_: None)


@pytest.mark.parametrize("code", PASSING)
def test_a_partition_whose_leader_does_not_say_where_to_begin_waits(code: int) -> None:
    """At once, for the group waits for the callback; the others begin, and it does when it is found again."""
    positions, consumer = finder(), Refusing(code, 1, committed=(0,))
    begins, waiting = positions.find(consumer, PLACES[:2])  # type: ignore[arg-type]
    assert [(begin.partition, begin.offset) for begin in begins] == [(PLACES[0], 5)]
    assert list(waiting) == [PLACES[1]]
    assert "the broker does not report where the log begins and ends: " in waiting[PLACES[1]]
    assert len(consumer.asked) == 1
    consumer.refused.clear()
    found = positions.find(consumer, PLACES[1:2])  # type: ignore[arg-type]
    assert ([begin.offset for begin in found.known], found.waiting) == ([7], {})


def test_a_partition_waits_for_its_last_transaction_and_for_a_commit_that_is_not_too_old() -> None:
    """Exactly once: another epoch would send outputs of the transaction again. The others begin."""
    consumer: Any = Refusing(0, committed=(0, 1, 2))
    consumer.committed = Mock(side_effect=consumer.committed)
    lookups = Lookups(undecided=lambda: {PLACES[0]}, is_old=lambda partition, _commit: partition == PLACES[1])
    positions = PositionFinder(
        lambda _topic: "latest", emit=lambda _: None, count=lambda *_: None, lookups=lookups
    )
    begins, waiting = positions.find(consumer, PLACES)
    assert waiting == {PLACES[0]: UNDECIDED, PLACES[1]: OLD_COMMIT}
    assert [begin.partition for begin in begins] == PLACES[2:]
    # The answer about the first one may change when its transaction ends.
    [(asked,)] = [call.args for call in consumer.committed.call_args_list]
    assert [one.partition for one in asked] == [1, 2]


def test_a_look_up_that_is_bounded_asks_no_more_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each answer is slow, none too slow: all of them together would keep the poll thread too long."""
    clock = VirtualClock()
    monkeypatch.setattr("ehkafka.positions.finder.time.monotonic", clock.now_s)
    given_s: list[float] = []

    def slow(answer: Any) -> Any:
        def answered(asked: list[KafkaPartition], timeout: float) -> Any:
            given_s.append(timeout)
            clock.advance(min(timeout, 4.0))
            return answer(asked, timeout)

        return answered

    positions, consumer = finder(), Refusing(KafkaError._TIMED_OUT)
    consumer.committed = slow(consumer.committed)  # type: ignore[method-assign]
    consumer.offsets_for_times = slow(consumer.offsets_for_times)  # type: ignore[method-assign]
    with positions.within(5.0):
        begins, waiting = positions.find(consumer, PLACES[:1])  # type: ignore[arg-type]
    assert (list(begins), list(waiting), given_s) == ([], PLACES[:1], [5.0, 1.0])
    assert [begin.offset for begin in positions.find(consumer, PLACES[:1]).known] == [7]  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._FATAL])
def test_what_waiting_does_not_cure_ends_the_app(code: int) -> None:
    """An operator has to do something."""
    with pytest.raises(EndpointError):
        finder().find(Refusing(code, 0), PLACES)  # type: ignore[arg-type]


def test_a_log_without_records_has_a_position_and_no_first_record_to_wait_for() -> None:
    """Never written, and expired: both are known at once; where there are records the first one shows it."""
    bounds: list[tuple[int, int] | None] = [(0, 0), (500, 500), (500, 510)]

    def answer(asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        found = [bounds[one.partition] for one in asked]
        if None in found:
            raise KafkaException(consumer.error)
        ends = [log[one.offset != OFFSET_BEGINNING] for one, log in zip(asked, found, strict=True) if log]
        return [KafkaPartition(one.topic, one.partition, at) for one, at in zip(asked, ends, strict=True)]

    positions = PositionFinder(lambda _topic: "earliest", emit=lambda _: None, count=lambda *_: None)
    consumer: Any = Refusing(KafkaError.LEADER_NOT_AVAILABLE)
    consumer.offsets_for_times = answer
    assert [begin.offset for begin in positions.find(consumer, PLACES).known] == [0, 500, OFFSET_BEGINNING]
    bounds[1] = None  # nothing is waited for that a partition can begin without
    assert [begin.offset for begin in positions.find(consumer, PLACES[:2]).known] == [OFFSET_BEGINNING] * 2
