"""Row 23 for the source: a topic that is deleted and recreated under its name, its new log the longer one.

Positions of the old log lie inside of the new one, so no offset is out of range. The topic's id tells.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from ehkafka.embedded.topics import produce
from ehkafka.errors import OffsetGapError
from ehkafka.ranges.log import Log
from ehkafka.ranges.places import Piece
from ehkafka.records import TopicPartition
from ehkafka.spark.source.consumers import messages
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.options import options_from
from ehkafka.spark.source.stream import Stream
from tests.integration.logs import fill, make_anew
from tests.spark.kept import close_idle
from tests.spark.source.conftest import batch, read_all_of, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.spark.source.conftest import FakeLog

P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)
OLD, NEW = 30, 80


@pytest.fixture
def named(log: FakeLog) -> FakeLog:
    """Return a log whose topic has an id."""
    log.ids["readings"] = bytes(range(16))
    log.grow("readings", OLD, OLD)
    return log


def test_a_restart_tells_both_ids(named: FakeLog) -> None:
    """`failOnDataLoss=true`: it ends before its first batch and says which topic, and what to do."""
    end = read_all_of(named)
    named.make_anew("readings", NEW, NEW)
    with pytest.raises(
        OffsetGapError,
        match=r"topic 'readings' had the id 00010203-.* and has 0f0e0d0c-.* now.*set failOnDataLoss=false",
    ):
        stream_of(named).latest(end, None)


def test_a_new_log_may_begin_later_and_have_fewer_partitions(named: FakeLog) -> None:
    """Where the new logs begin is written down with the batch; partitions that are gone are not missed."""
    end = read_all_of(named)
    named.make_anew("readings", NEW)
    named.first[P0] = 7
    stream = stream_of(named, failOnDataLoss="false")
    after, pieces = batch(stream, end)
    assert pieces == [Piece("readings", 0, 7, NEW)]
    assert StreamOffset.from_json(after).positions == {P0: NEW}


def test_an_offset_without_an_id_is_read_on_and_gets_one(named: FakeLog) -> None:
    """A checkpoint from before: the broker is not asked again for it, and its next offset carries the id."""
    stream = stream_of(named)
    named.grow("readings", OLD + 5, OLD)
    after, pieces = batch(stream, {"readings": {"0": OLD, "1": OLD}})
    assert pieces == [Piece("readings", 0, OLD, OLD + 5)]
    assert StreamOffset.from_json(after).topic_ids == named.ids
    assert "ids" not in named.asked


def test_an_id_that_is_not_reported_disproves_nothing_and_is_kept(named: FakeLog) -> None:
    """Silence, or a broker without ids: the query goes on, and later answers still tell."""
    end = read_all_of(named)
    known = dict(named.ids)
    named.ids.clear()
    named.grow("readings", OLD + 5, OLD)
    after, pieces = batch(stream_of(named), end)
    assert pieces == [Piece("readings", 0, OLD, OLD + 5)]
    assert StreamOffset.from_json(after).topic_ids == known


def test_the_id_is_asked_after_the_ends_were(named: FakeLog) -> None:
    """Then the ends are of the topic with that id; and an idle query asks for none."""
    stream = stream_of(named)
    end = read_all_of(named)
    batch(stream, end)
    named.asked.clear()
    named.grow("readings", OLD + 5, OLD)
    end, _ = batch(stream, end)
    assert named.asked == ["ends", "ids"]
    named.asked.clear()
    batch(stream, end)
    assert named.asked == ["ends"]


class OnKafka:
    """Queries of one topic on a broker, each with a log and a stream of its own."""

    def __init__(self, broker: KafkaBroker, undo: ExitStack) -> None:
        self.broker, self._undo = broker, undo
        self.topic = f"readings-{uuid.uuid4().hex[:8]}"
        broker.create_topic(self.topic, 1)

    def stream(self, **given: str) -> Stream:
        """Return a query's stream."""
        options = options_from(
            {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": self.topic, **given}
        )
        return Stream(options, self._undo.enter_context(Log(options)))

    def values(self, pieces: list[Piece]) -> list[bytes]:
        """Return what tasks read of these pieces."""
        options = options_from({"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": self.topic})
        return [one.value() or b"" for _, records in messages(options, pieces) for one in records]


@pytest.fixture
def on_kafka(kafka: KafkaBroker) -> Iterator[OnKafka]:
    """Return queries of a topic of the test's own, on a real broker."""
    with ExitStack() as undo:
        undo.callback(close_idle)
        yield OnKafka(kafka, undo)


@pytest.mark.broker
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_a_topic_made_anew_on_kafka_ends_the_query(on_kafka: OnKafka, *, is_restarted: bool) -> None:
    """Row 23 on a real broker, between two batches and from a checkpoint: `failOnDataLoss=true`."""
    fill(on_kafka, "old", OLD)
    stream = on_kafka.stream(startingOffsets="earliest")
    end, pieces = batch(stream, stream.initial())
    assert len(on_kafka.values(pieces)) == OLD
    make_anew(on_kafka, NEW)
    after = on_kafka.stream() if is_restarted else stream
    with pytest.raises(OffsetGapError, match=rf"topic '{on_kafka.topic}' had the id .* and has .* now"):
        after.latest(end, None)


@pytest.mark.broker
def test_without_fail_on_data_loss_all_of_the_new_log_is_read(on_kafka: OnKafka) -> None:
    """On a real broker: each record of the new log, once, and of the partitions that it has more, at once."""
    fill(on_kafka, "old", OLD)
    stream = on_kafka.stream(startingOffsets="earliest", failOnDataLoss="false")
    end, _ = batch(stream, stream.initial())
    make_anew(on_kafka, NEW)
    on_kafka.broker.create_partitions(on_kafka.topic, 2)
    produce(on_kafka.broker.bootstrap, on_kafka.topic, [("k", b"v")] * 5, partition=1)
    end, pieces = batch(stream, end)
    assert pieces == [Piece(on_kafka.topic, 0, 0, NEW), Piece(on_kafka.topic, 1, 0, 5)]
    values = on_kafka.values(pieces[:1])
    assert values == [b"new-%d" % number for number in range(NEW)], f"FACT: {len(values)} of {NEW} were read"
    assert batch(stream, end) == (end, [])
