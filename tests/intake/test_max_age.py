"""`max_age`: who is too old, and how often it is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from ehkafka.events import RecordsTooOld
from ehkafka.intake.max_age import BURST_S, AgeLimits
from ehkafka.records import TopicPartition
from tests.kit.events import Events

P0, Q0 = TopicPartition("t", 0), TopicPartition("u", 0)
NOW_S = 1_000_000.0


def stamped(offset: int, age_s: float, kind: int = TIMESTAMP_CREATE_TIME, *, ms: int | None = None) -> Any:
    """Return a message of a certain age, or with this timestamp."""
    timestamp = kind, int((NOW_S - age_s) * 1000) if ms is None else ms
    return SimpleNamespace(offset=lambda: offset, timestamp=lambda: timestamp)


class Bench:
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

    def old(self, *messages: Any, partition: TopicPartition = P0) -> list[int]:
        """Return the offsets of a batch that are too old."""
        found = self.limits.too_old(partition, messages)
        return [message.offset() for message in messages if message.offset() in found]


@pytest.fixture
def bench() -> Bench:
    """Return limits and what they reported."""
    return Bench()


@pytest.mark.parametrize("kind", [TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME])
def test_a_record_is_too_old_above_the_age_and_not_at_it(bench: Bench, kind: int) -> None:
    """The records of a batch are judged one by one: timestamps of producers need not ascend."""
    batch = [stamped(number, age_s, kind) for number, age_s in enumerate((61, 60, 3_600, 0))]
    assert bench.old(*batch) == [0, 2]
    assert bench.counted == 2


@pytest.mark.parametrize(
    ("message", "partition"),
    [
        (stamped(0, 3_600, TIMESTAMP_NOT_AVAILABLE), P0),
        (stamped(0, 3_600), Q0),
        # Some producers write -1 for none, and librdkafka hands it on like any other.
        *((stamped(0, 0, ms=ms), P0) for ms in (-1, -2, -(2**62))),
    ],
    ids=["no timestamp", "another handler's topic", "-1", "-2", "long before 1970"],
)
def test_what_has_no_known_age_or_no_limit_is_handled(
    bench: Bench, message: Any, partition: TopicPartition
) -> None:
    """An unknown age is no reason to skip a record."""
    assert bench.old(message, partition=partition) == []
    assert bench.counted == 0


def test_a_burst_is_reported_once_when_it_pauses(bench: Bench) -> None:
    """One event with the count, the offsets and the oldest age, however many batches it came in."""
    bench.old(stamped(5, 90), stamped(6, 600), stamped(7, 1))
    bench.limits.check()
    bench.old(stamped(8, 120))
    bench.limits.check()
    assert bench.events == []
    bench.limits.check()
    assert bench.events == [RecordsTooOld(P0, 3, 5, 8, oldest_age_s=600.0, max_age_s=60.0)]
    bench.limits.check()
    assert len(bench.events) == 1


def test_a_burst_that_goes_on_is_reported_every_now_and_then(bench: Bench) -> None:
    """Hours of old events are not kept secret until the last of them has passed."""
    for offset in range(25):
        bench.old(stamped(offset, 3_600))
        bench.limits.check()
        bench.now_s += BURST_S / 10
    assert [event.records for event in bench.events] == [11, 11]
    assert bench.counted == 25


def test_a_burst_is_reported_when_its_partition_goes(bench: Bench) -> None:
    """A revoke or a stop right after does not swallow it."""
    bench.old(stamped(5, 90))
    bench.limits.report(P0)
    bench.limits.report(P0)
    assert [event.records for event in bench.events] == [1]
