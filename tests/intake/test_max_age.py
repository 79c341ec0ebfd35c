"""`max_age`: who is too old, and how often it is said."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from ehkafka.events import RecordsTooOld
from ehkafka.intake.max_age import BURST_S, AgeLimits
from ehkafka.records import TopicPartition
from tests.kit.events import Events

P0, Q0 = TopicPartition("t", 0), TopicPartition("u", 0)
NOW_S = 1_000_000.0


class Stamped:
    """A message of a certain age."""

    def __init__(self, offset: int, age_s: float, kind: int = TIMESTAMP_CREATE_TIME) -> None:
        self._offset = offset
        self._timestamp = (kind, int((NOW_S - age_s) * 1000))

    def offset(self) -> int:
        """Its place."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """As confluent's `Message` has it."""
        return self._timestamp


class Desk:
    """Age limits of a minute for `t`, with a clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.events = Events()
        self.counted = 0
        self.limits = AgeLimits(
            {"t": 60.0}, emit=self.events.append, count=self._count, wall_clock=lambda: self.now_s
        )

    def _count(self, name: str, number: int) -> None:
        assert name == "records_too_old"
        self.counted += number

    def old(self, *messages: Stamped, partition: TopicPartition = P0) -> list[int]:
        """Return the offsets of a batch that are too old."""
        found = self.limits.too_old(partition, messages)  # type: ignore[arg-type]
        return [message.offset() for message in messages if message.offset() in found]


@pytest.fixture
def desk() -> Desk:
    """Return limits and what they told."""
    return Desk()


@pytest.mark.parametrize("kind", [TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME])
def test_a_record_is_too_old_above_the_age_and_not_at_it(desk: Desk, kind: int) -> None:
    """The records of a batch are judged one by one: timestamps of producers need not ascend."""
    batch = [Stamped(0, 61, kind), Stamped(1, 60, kind), Stamped(2, 3_600, kind), Stamped(3, 0, kind)]
    assert desk.old(*batch) == [0, 2]
    assert desk.counted == 2


def test_a_record_without_a_timestamp_is_handled(desk: Desk) -> None:
    """Its age is unknown, which is no reason to skip it."""
    assert desk.old(Stamped(0, 3_600, TIMESTAMP_NOT_AVAILABLE)) == []
    assert desk.counted == 0


def test_a_topic_without_a_limit_is_left_alone(desk: Desk) -> None:
    """A limit of one handler is not another's."""
    assert desk.old(Stamped(0, 3_600), partition=Q0) == []


def test_a_burst_is_told_once_when_it_pauses(desk: Desk) -> None:
    """One event with the count, the offsets and the oldest age, however many batches it came in."""
    desk.old(Stamped(5, 90), Stamped(6, 600), Stamped(7, 1))
    desk.limits.look()
    desk.old(Stamped(8, 120))
    desk.limits.look()
    assert desk.events == []
    desk.limits.look()
    assert desk.events == [RecordsTooOld(P0, 3, 5, 8, oldest_age_s=600.0, max_age_s=60.0)]
    desk.limits.look()
    assert len(desk.events) == 1


def test_a_burst_that_goes_on_is_told_every_now_and_then(desk: Desk) -> None:
    """Hours of old events are not kept secret until the last of them has passed."""
    for offset in range(25):
        desk.old(Stamped(offset, 3_600))
        desk.limits.look()
        desk.now_s += BURST_S / 10
    assert [event.records for event in desk.events] == [11, 11]
    assert desk.counted == 25


def test_a_burst_is_told_when_its_partition_goes(desk: Desk) -> None:
    """A revoke or a stop right after does not swallow it."""
    desk.old(Stamped(5, 90))
    desk.limits.tell(P0)
    desk.limits.tell(P0)
    assert [event.records for event in desk.events] == [1]


@pytest.mark.parametrize("milliseconds", [-1, -2, -(2**62)])
def test_a_timestamp_before_1970_is_none(desk: Desk, milliseconds: int) -> None:
    """Some producers write -1 for "no timestamp", and librdkafka hands it on as one: never skip for it."""
    message = Stamped(0, 0)
    message._timestamp = (TIMESTAMP_CREATE_TIME, milliseconds)
    assert desk.old(message) == []
    assert desk.counted == 0
