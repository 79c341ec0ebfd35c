"""Where partitions begin is asked again of a broker that cannot say yet."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem
from ehkafka.positions.finder import PositionFinder
from ehkafka.records import TopicPartition

P0 = TopicPartition("t", 0)


class JustMade:
    """A consumer whose group has no commit, on a topic whose leader answers only after a while."""

    def __init__(self, leaderless_s: float) -> None:
        self._led_from_s = time.monotonic() + leaderless_s

    def committed(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """No commit."""
        return [KafkaPartition(one.topic, one.partition, -1001) for one in asked]

    def offsets_for_times(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return the log's bounds, once there is a leader."""
        if time.monotonic() < self._led_from_s:
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
        return [
            KafkaPartition(one.topic, one.partition, 0 if one.offset == OFFSET_BEGINNING else 7)
            for one in asked
        ]


def finder(reported: list[Any]) -> PositionFinder:
    """Return one whose app starts at the log's end."""
    return PositionFinder(lambda _topic: "latest", emit=reported.append, count=lambda *_: None)


def test_a_topic_that_was_just_made_is_waited_for() -> None:
    """Five refusals in a row take a millisecond; a leader half a second later is not missed."""
    reported: list[Any] = []
    consumer: Any = JustMade(0.5)
    assert [begin.offset for begin in finder(reported).find(consumer, [P0]).known] == [7]
    assert reported
    assert not any(event.fatal for event in reported if isinstance(event, ConnectionProblem))


class Logs:
    """A consumer whose group has no commit, over logs with these bounds; None: its leader does not answer."""

    def __init__(self, *bounds: tuple[int, int] | None) -> None:
        self._bounds = bounds

    committed = JustMade.committed

    def offsets_for_times(self, asked: list[KafkaPartition], timeout: float) -> list[KafkaPartition]:
        """Return the logs' bounds."""
        found = [self._bounds[one.partition] for one in asked]
        if None in found:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        ends = [bounds[one.offset != OFFSET_BEGINNING] for one, bounds in zip(asked, found, strict=True)]  # type: ignore[index]
        return [KafkaPartition(one.topic, one.partition, at) for one, at in zip(asked, ends, strict=True)]


def test_a_log_without_records_has_a_position_and_no_first_record_to_wait_for() -> None:
    """Never written, and expired: both are known at once; where there are records the first one shows it."""
    places = [TopicPartition("t", number) for number in range(3)]
    positions = PositionFinder(lambda _topic: "earliest", emit=lambda _: None, count=lambda *_: None)
    consumer: Any = Logs((0, 0), (500, 500), (500, 510))
    assert [begin.offset for begin in positions.find(consumer, places).known] == [0, 500, OFFSET_BEGINNING]
    # Nothing is waited for that a partition can begin without.
    consumer = Logs((0, 0), None)
    assert [begin.offset for begin in positions.find(consumer, places[:2]).known] == [OFFSET_BEGINNING] * 2


def test_a_leader_that_never_comes_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last try the app hears what was said."""
    monkeypatch.setattr("ehkafka.positions.log_bounds.AGAIN_S", 0.0)
    consumer: Any = JustMade(60.0)
    with pytest.raises(EndpointError, match=r"in 7 tries: NOT_LEADER_FOR_PARTITION"):
        finder([]).find(consumer, [P0])
