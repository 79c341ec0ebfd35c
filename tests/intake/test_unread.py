"""Which logs go on behind what was received, and when the broker is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.intake.unread import ASK_S, Unread
from ehkafka.lanes.assignment import Assignment
from ehkafka.records import TopicPartition


class Logs:
    """Three partitions of handler `a`, one of `b`, and a broker that says where they end."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.owned = OwnedPartitions()
        self.ends: dict[TopicPartition, int] = {}
        self.asked: list[list[TopicPartition]] = []
        self.is_away = False
        for name in (("a", 0), ("a", 1), ("a", 2), ("b", 0)):
            route: Any = SimpleNamespace(name=name[0])
            partition = TopicPartition(*name)
            self.owned[partition] = OwnedPartition(route, Assignment(partition, 1))
        context: Any = SimpleNamespace(owned=self.owned, clock=lambda: self.now_s)
        self.unread = Unread(context)
        self.client: Any = self

    def offsets_for_times(self, partitions: list[Any], *, timeout: float) -> list[Any]:
        """Answer as a client does."""
        assert timeout < ASK_S
        self.asked.append([TopicPartition(one.topic, one.partition) for one in partitions])
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        for one in partitions:
            one.offset = self.ends[TopicPartition(one.topic, one.partition)]
        return partitions

    def has(self, topic: str, number: int) -> bool:
        """Tell of one."""
        return self.unread.has(TopicPartition(topic, number))

    def know(self, topic: str, number: int, end: int, received_next: int | None) -> None:
        """Let a fetch tell an end, and so much be received."""
        partition = TopicPartition(topic, number)
        self.owned.log_ends[partition] = self.ends[partition] = end
        self.owned[partition].assignment.received_next = received_next


@pytest.fixture
def logs() -> Logs:
    """All but a[2] have ended: b is empty, and of a[1] everything was received."""
    logs = Logs()
    logs.know("a", 1, 7, 7)
    logs.know("a", 2, 7, 6)
    logs.know("b", 0, 0, None)
    return logs


def test_only_what_is_known_to_have_ended_has_nothing_unread(logs: Logs) -> None:
    """Whatever is not known may go on."""
    assert [logs.has("a", number) for number in range(3)] == [True, False, True]
    assert not logs.has("b", 0)
    assert logs.unread.names() == {"a"}
    logs.know("a", 0, 3, None)
    assert logs.has("a", 0)


def test_those_are_asked_about_that_have_ended_and_once_a_second(logs: Logs) -> None:
    """What came meanwhile is unread at once."""
    logs.ends[TopicPartition("b", 0)] = 2
    logs.unread.names()
    logs.unread.ask(logs.client)
    logs.unread.ask(logs.client)
    assert logs.asked == [[("a", 1), ("b", 0)]]
    assert logs.has("b", 0)
    assert logs.unread.names() == {"a", "b"}
    logs.now_s += ASK_S
    logs.unread.ask(logs.client)
    assert logs.asked[1:] == [[("a", 1)]]


def test_without_an_answer_nobody_knows_after_some_seconds(logs: Logs) -> None:
    """Until the broker is there again, everything may go on."""
    logs.unread.ask(logs.client)
    logs.is_away = True
    known = []
    for _ in range(8):
        logs.now_s += ASK_S
        logs.unread.ask(logs.client)
        known.append(not logs.has("b", 0))
    assert known == [True] * 5 + [False] * 3
    logs.is_away = False
    logs.now_s += ASK_S
    logs.unread.ask(logs.client)
    assert not logs.has("b", 0)


def test_after_a_time_without_interest_the_fetches_are_believed(logs: Logs) -> None:
    """Nobody asks while nothing is withheld for it."""
    logs.unread.ask(logs.client)
    logs.now_s += 60.0
    assert not logs.has("b", 0)
    logs.is_away = True
    logs.unread.ask(logs.client)
    assert not logs.has("b", 0)
