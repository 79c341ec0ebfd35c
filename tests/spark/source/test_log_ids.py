"""Reading the records that tell a stream's logs from others, on a broker without topic ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import OffsetGapError
from ehkafka.ranges import log_ids
from ehkafka.ranges.log import Log
from ehkafka.ranges.log_ids import LogIds
from ehkafka.records import TopicPartition
from ehkafka.spark.source.consumers import messages
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.testing import EmbeddedBroker

P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)
OLD, NEW = 30, 80


def test_records_are_read_one_after_the_other(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """Both times, and a look is due again after a minute."""
    for number in (0, 1):
        broker.produce("readings", [(b"k", b"v")] * 10, partition=number)
    ids = LogIds(options())
    assert ids.is_check_due()
    first, then = ids.records({P0: 8, P1: 8}, {P0: 3, P1: 4})
    assert [first[one].first[0] for one in (P0, P1)] == [8, 8]  # type: ignore[index]
    assert [then[one].first[0] for one in (P0, P1)] == [3, 4]  # type: ignore[index]
    assert not ids.is_check_due()
    ids.stop()


def test_a_broker_that_does_not_answer_tells_nothing(options: Callable[..., SourceOptions]) -> None:
    """Within a bound, without an error: the driver's own client is who tells of it."""
    ids = LogIds(options(**{"kafka.bootstrap.servers": "127.0.0.1:1"}))
    assert ids.records({P0: 8}, {P0: 3}) == ({}, {})
    ids.stop()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_a_topic_made_anew_on_a_broker_without_ids(
    broker: EmbeddedBroker,
    options: Callable[..., SourceOptions],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_restarted: bool,
) -> None:
    """Row 23 with clients in earnest: the record's own timestamp tells, and all of the new log is read."""
    monkeypatch.setattr(log_ids, "CHECK_EVERY_S", 0.0)
    broker.produce("readings", [(b"k", b"old")] * OLD, partition=0)
    given, goes_on = options(startingOffsets="earliest"), options(failOnDataLoss="false")
    with Log(given) as log:
        stream = Stream(given, log)
        end = json.loads(json.dumps(stream.latest(stream.initial(), None)))
        assert set(StreamOffset.from_json(end).witnesses) == {P0}
        broker.delete_topic("readings")
        broker.create_topic("readings", 2)
        broker.produce("readings", [(b"k", b"new")] * NEW, partition=0)
        with Log(given) as another:
            after = Stream(given, another) if is_restarted else stream
            with pytest.raises(
                OffsetGapError, match=r"topic 'readings' holds other records \(in readings\[0"
            ):
                after.latest(end, None)
    with Log(goes_on) as log:
        stream = Stream(goes_on, log)
        after_all = stream.latest(end, None)
        pieces = stream.pieces(end, after_all)
    assert [one.value() for _, records in messages(goes_on, pieces) for one in records] == [b"new"] * NEW
    assert set(StreamOffset.from_json(after_all).witnesses) == {P0}
