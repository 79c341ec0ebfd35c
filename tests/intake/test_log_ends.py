"""Where logs end, and what the client's position says of what is no record: never too much."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.intake.log_ends import LogEnds
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.lanes.assignment import Assignment
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

P0 = TopicPartition("t", 0)


class Client:
    """A client that knows the end of a log, and where it stands in it."""

    def __init__(self, end: int, position: int) -> None:
        self.end = end
        self.at = position

    def get_watermark_offsets(self, _where: Any, *, cached: bool) -> tuple[int, int]:
        """Tell the end without asking the broker."""
        assert cached
        return 0, self.end

    def position(self, partitions: list[Any]) -> list[Any]:
        """Tell the position."""
        return [
            SimpleNamespace(topic=p.topic, partition=p.partition, offset=self.at, leader_epoch=3)
            for p in partitions
        ]


class Exchange:
    """Has a lock."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Give it."""
        yield


class Stand:
    """One partition of ours, received up to 10, and the looks at it."""

    def __init__(self, end: int, position: int, received_next: int | None = 10) -> None:
        self.client: Any = Client(end, position)
        self.assignment = Assignment(P0, 1)
        self.assignment.received_next = received_next
        self.owned = OwnedPartitions()
        route: Any = SimpleNamespace(name="h", exchange=Exchange())
        self.owned[P0] = OwnedPartition(route, self.assignment)
        context: Any = SimpleNamespace(owned=self.owned, clock=lambda: 1.0, history=None)
        self.log_ends = LogEnds(context)

    def check(self) -> int | None:
        """Look, and return up to where the partition has received."""
        self.log_ends.check(self.client, [self.assignment])
        return self.assignment.received_next


@pytest.mark.parametrize(
    ("end", "position", "noted", "received_next"),
    [
        (12, 10, 12, 10), (12, 12, 12, 12), (15, 12, 15, 12), (12, -1001, 12, 10), (10, 10, 10, 10),
        (-1001, 10, None, 10),
    ],
    ids=[
        "records to come", "only control records", "some of them", "position unknown", "at the end",
        "end unknown",
    ],
)  # fmt: skip
def test_what_is_no_record_counts_as_received(
    end: int, position: int, noted: int | None, received_next: int
) -> None:
    """What the client has passed holds no record; nothing is known of what lies behind."""
    stand = Stand(end, position)
    assert stand.check() == received_next
    assert stand.owned.log_ends.get(P0) == noted
    assert stand.assignment.watermark() == received_next


def test_a_log_without_any_record_is_passed() -> None:
    """A start at the earliest offset has no position before something was fetched."""
    stand = Stand(12, 12, received_next=None)
    assert stand.check() == 12
    mark = stand.assignment.mark_at(11)
    assert mark is not None
    assert mark.leader_epoch == 3


def test_a_position_from_before_the_assignment_proves_nothing() -> None:
    """Librdkafka forgets it a moment after the assign; until then it is of another place in the log."""
    stand = Stand(600, 500)
    stand.log_ends.begin(stand.client, [P0])
    assert stand.check() == 10
    stand.client.at = -1001
    assert stand.check() == 10
    stand.client.at = 11
    assert stand.check() == 11
    stand.client.at = 500
    assert stand.check() == 500


def test_the_highest_started_record_is_no_control_record() -> None:
    """Else a drain would finish all that waits below the end of a transaction."""
    stand = Stand(12, 12)
    stand.assignment.last_received = 9
    stand.check()
    assert stand.assignment.highest_started() == 9


def test_an_end_that_was_passed_is_looked_up_again() -> None:
    """Else the lag would read 0 between two looks, however long the log is."""
    stand = Stand(5_000, 10)
    ends = stand.owned.log_ends
    ends[P0] = 8
    stand.log_ends.check_where_passed(stand.client, [stand.assignment])
    assert ends == {P0: 5_000}
    stand.client.end = 9_000
    stand.log_ends.check_where_passed(stand.client, [stand.assignment])
    assert ends == {P0: 5_000}
