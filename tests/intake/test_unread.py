"""Which logs go on behind what was received, by the book."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.intake.unread import Unread
from ehkafka.lanes.epoch import Epoch
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_book import KNOWN_S
from ehkafka.records import TopicPartition


class Logs:
    """Three partitions of handler `a`, one of `b`."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.owned = OwnedPartitions()
        for name in (("a", 0), ("a", 1), ("a", 2), ("b", 0)):
            route: Any = SimpleNamespace(name=name[0])
            partition = TopicPartition(*name)
            self.owned[partition] = OwnedPartition(route, Epoch(partition, 1, {}))
        context: Any = SimpleNamespace(owned=self.owned, clock=lambda: self.now_s, contact=self)
        self.unread = Unread(context)

    def has(self, topic: str, number: int) -> bool:
        """Tell of one."""
        return self.unread.has(TopicPartition(topic, number))

    def know(self, topic: str, number: int, end: int, received_next: int | None, start: int = 0) -> None:
        """Let a broker tell an end, and so much be received."""
        partition = TopicPartition(topic, number)
        self.owned.logs.answered(partition, LogBounds(start, end), self.now_s)
        self.owned[partition].epoch.received.next_offset = received_next


@pytest.fixture
def logs() -> Logs:
    """All but a[2] have ended: b is empty, and of a[1] everything was received."""
    logs = Logs()
    logs.know("a", 1, 7, 7)
    logs.know("a", 2, 7, 6)
    logs.know("b", 0, 5, None, start=5)
    return logs


def test_only_what_is_known_to_have_ended_has_nothing_unread(logs: Logs) -> None:
    """Whatever is not known may go on."""
    assert [logs.has("a", number) for number in range(3)] == [True, False, True]
    assert not logs.has("b", 0)
    assert logs.unread.names() == {"a"}
    logs.know("a", 0, 3, None)
    assert logs.has("a", 0)


def test_what_a_broker_has_said_of_new_records_counts_at_the_next_look(logs: Logs) -> None:
    """Also while nothing is fetched."""
    logs.unread.names()
    logs.know("b", 0, 7, None)
    logs.now_s += 0.1
    assert logs.unread.names() == {"a", "b"}


def test_an_end_that_is_old_proves_nothing(logs: Logs) -> None:
    """Until the broker is there again, everything may go on."""
    logs.now_s += KNOWN_S
    assert logs.has("b", 0)
    logs.know("b", 0, 5, None, start=5)
    assert not logs.has("b", 0)
