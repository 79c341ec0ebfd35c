"""What a stream decides on the driver, without Spark and without a broker."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import ConfigurationError, OffsetGapError
from ehkafka.ranges.loss import Loss
from ehkafka.ranges.places import Piece
from ehkafka.records import TopicPartition
from ehkafka.spark.source import stream as stream_module
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.options import OF_A_QUERY, options_from
from ehkafka.spark.source.stream import Stream
from tests.spark.source.conftest import batch, covered, stream_of

if TYPE_CHECKING:
    from tests.spark.source.conftest import FakeLog

P0, P1, P2 = (TopicPartition("readings", number) for number in range(3))


def test_a_replay_of_the_first_batch_begins_where_it_began(log: FakeLog) -> None:
    """Trap: `initialOffset()` is called again when batch 0 is replayed; a moving "latest" lost records."""
    log.grow("readings", 5, 7)
    stream = stream_of(log, startingOffsets="latest")
    start = stream.initial()
    stream.latest(start, None)
    log.grow("readings", 6, 9)
    end, pieces = batch(stream, start)
    assert pieces == [Piece("readings", 0, 5, 6), Piece("readings", 1, 7, 9)]
    log.grow("readings", 20, 20)
    restarted = stream_of(log, startingOffsets="latest")
    assert restarted.initial() == stream.initial()
    assert restarted.pieces(restarted.initial(), end) == pieces


def test_the_start_is_written_down_before_anything_has_come(log: FakeLog) -> None:
    """Trap: a stream at "latest" that was killed while idle goes on where it began, not at a later end."""
    log.grow("readings", 5)
    stream = stream_of(log)
    end, pieces = batch(stream, stream.initial())
    assert pieces == []
    log.grow("readings", 8)
    assert batch(stream_of(log), end)[1] == [Piece("readings", 0, 5, 8)]


def test_nothing_new_is_the_start_itself(log: FakeLog) -> None:
    """Trap: offsets are compared as text, so an idle stream must return what it was given."""
    log.grow("readings", *range(12))
    stream = stream_of(log, startingOffsets="earliest")
    end, _ = batch(stream, stream.initial())
    assert json.dumps(stream.latest(end, None)) == json.dumps(end)
    shuffled = {name: dict(reversed(numbers.items())) for name, numbers in end.items()}
    assert json.dumps(stream.latest(shuffled, None)) == json.dumps(shuffled)


def test_a_limit_bounds_each_batch_until_all_is_read(log: FakeLog) -> None:
    """`maxOffsetsPerTrigger`: batches of so many, each offset once."""
    log.grow("readings", 10, 30, 0)
    stream = stream_of(log, startingOffsets="earliest")
    start, read, sizes = stream.initial(), [], []
    while True:
        end, pieces = batch(stream, start, 12)
        if not pieces:
            break
        read += pieces
        sizes.append(sum(piece.size_records for piece in pieces))
        start = end
    assert sizes == [12, 12, 12, 4]
    assert covered(read) == [(0, offset) for offset in range(10)] + [(1, offset) for offset in range(30)]


def test_available_now_ends_where_the_log_ended(log: FakeLog) -> None:
    """What comes after the start of the query, a new partition's records too, is left to the next run."""
    log.grow("readings", 5)
    stream = stream_of(log, startingOffsets="earliest")
    stream.prepare_available_now()
    log.grow("readings", 9, 4)
    end, pieces = batch(stream, stream.initial(), 3)
    assert pieces == [Piece("readings", 0, 0, 3)]
    end, pieces = batch(stream, end, 3)
    assert pieces == [Piece("readings", 0, 3, 5)]
    assert stream.latest(end, 3) == end


def test_a_partition_that_was_added_is_read_from_its_beginning(log: FakeLog) -> None:
    """A topic that grows loses none of the new partition's first records."""
    log.grow("readings", 5)
    stream = stream_of(log)
    end, _ = batch(stream, stream.initial())
    log.grow("readings", 5, 3)
    assert batch(stream, end)[1] == [Piece("readings", 1, 0, 3)]


def _engine_stream(log: FakeLog, **given: str) -> Stream:
    options = options_from({"bootstrap": "localhost:1", "subscribe": "readings", **given})
    return Stream(replace(options, grows=True), log)


@pytest.mark.parametrize("first", [0, 40])
def test_a_partition_that_comes_after_the_engine_has_named_all_begins_with_its_log(
    log: FakeLog, first: int
) -> None:
    """Between start and first batch, between two looks of batch 0, and replayed."""
    log.grow("readings", 5)
    named = '{"readings": {"0": 2}}'
    stream = _engine_stream(log, startingOffsets=named)
    log.grow("readings", 5, 50)
    log.first[P1] = first
    stream.latest(stream.initial(), None)
    log.grow("readings", 5, 50, 50)
    log.first[P2] = first
    end, pieces = batch(stream, stream.initial())
    assert pieces == [
        Piece("readings", 0, 2, 5),
        Piece("readings", 1, first, 50),
        Piece("readings", 2, first, 50),
    ]
    again = _engine_stream(log, startingOffsets=named)
    assert again.pieces(again.initial(), end) == pieces


@pytest.mark.parametrize("first", [0, 40])
def test_a_partition_that_comes_while_the_engine_is_stopped_begins_with_its_log(
    log: FakeLog, first: int
) -> None:
    """Over a checkpoint as without one: what retention took of it before is no loss. Replayed, too."""
    log.grow("readings", 5, 50)
    log.first[P1] = first
    start = StreamOffset({P0: 5}).to_json()
    end, pieces = batch(_engine_stream(log, startingOffsets='{"readings": {"0": 1}}'), start, 7)
    assert pieces == [Piece("readings", 1, first, first + 7)]
    assert _engine_stream(log).pieces(start, end) == pieces


def test_what_a_query_has_missed_of_an_added_partition_is_loss(log: FakeLog) -> None:
    """Retention was quicker than the query: named, or passed and begun where the log does."""
    log.grow("readings", 5, 50)
    log.first[P1] = 40
    start = StreamOffset({P0: 5}).to_json()
    with pytest.raises(OffsetGapError, match=r"readings\[1\].*0 to 39 are gone"):
        stream_of(log).latest(start, None)
    assert batch(stream_of(log, failOnDataLoss="false"), start)[1] == [Piece("readings", 1, 40, 50)]


def test_a_partition_that_a_broker_does_not_know_yet_is_asked_for_again(log: FakeLog) -> None:
    """Metadata spreads in a moment: until then neither a named start nor a checkpoint's place is gone."""
    log.grow("readings", 5)
    log.grow_late = lambda: log.grow("readings", 5, 3)
    stream = _engine_stream(log, startingOffsets='{"readings": {"0": 5, "1": 1}}')
    assert batch(stream, stream.initial())[1] == [Piece("readings", 1, 1, 3)]
    del log.last[P1]
    assert batch(stream_of(log), StreamOffset({P0: 5, P1: 2}).to_json())[1] == [Piece("readings", 1, 2, 3)]


def test_a_start_that_fell_out_of_retention_is_named(log: FakeLog) -> None:
    """`failOnDataLoss=true`: the gap ends the query before its first batch after a restart."""
    log.grow("readings", 50)
    log.first[P0] = 30
    start = StreamOffset({P0: 10}).to_json()
    with pytest.raises(
        OffsetGapError, match=r"readings\[0\].*offset 10.*10 to 29 are gone.*failOnDataLoss=false"
    ):
        stream_of(log).latest(start, None)


def test_without_fail_on_data_loss_the_gap_is_reported_and_passed(
    log: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    """`failOnDataLoss=false`: one warning, the limit counts what can be read, and tasks meet no gap again."""
    log.grow("readings", 50)
    log.first[P0] = 30
    stream = stream_of(log, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "ehkafka.spark"):
        end, pieces = batch(stream, StreamOffset({P0: 10}).to_json(), 5)
    [warning] = caplog.messages
    assert "10 to 29 are gone (retention). The query continues at offset 30 " in warning
    assert (pieces[0].start, pieces[0].end) == (30, 35)
    assert StreamOffset.from_json(end).positions == {P0: 35}


def test_a_log_that_ends_before_the_start_is_named(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    """Trap: start > end is an error: the topic was made anew. One warning says where it goes on."""
    log.grow("readings", 4)
    start = StreamOffset({P0: 10}).to_json()
    with pytest.raises(OffsetGapError, match="recreated"):
        stream_of(log).latest(start, None)
    with pytest.raises(OffsetGapError, match="recreated"):
        stream_of(log).pieces(start, StreamOffset({P0: 4}).to_json())
    log.first[P0] = 1
    stream = stream_of(log, failOnDataLoss="false")
    end, pieces = batch(stream, start)
    assert pieces == [Piece("readings", 0, 1, 4)]
    assert stream_of(log, failOnDataLoss="false").pieces(start, end) == pieces
    [warning] = caplog.messages
    assert "offset 10 was to be read next, but the log holds offsets 1 to 4" in warning
    assert "The query continues at offset 1 (failOnDataLoss=false)" in warning


def test_what_a_task_finds_cut_names_no_place_that_is_not_read() -> None:
    """Where the query goes on in a new log is for the plan of the next batch to say."""
    assert Loss(P0, 2, 48, 0, 5).lost(OF_A_QUERY).goes_on == "This batch ends without these offsets"
    assert Loss(P0, 2, 48, 20, 90).lost(OF_A_QUERY).goes_on == "The query continues at offset 20"
    assert Loss(P0, 2, 48, 60, 90).lost(OF_A_QUERY).goes_on.endswith("the log begins at offset 60")


def test_partitions_that_are_gone_are_named(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    """A topic that lost partitions (deleted and made anew) is loss of data."""
    log.grow("readings", 4)
    start = StreamOffset({P0: 4, P1: 9}).to_json()
    with pytest.raises(OffsetGapError, match=r"readings\[1\]"):
        stream_of(log).latest(start, None)
    stream = stream_of(log, failOnDataLoss="false")
    end = stream.latest(start, None)
    assert "readings[1]" in caplog.text
    assert StreamOffset.from_json(end).positions == {P0: 4}


def test_a_checkpoint_of_another_topic_is_refused(log: FakeLog) -> None:
    """Two queries with one checkpoint directory: both topics are named."""
    log.grow("readings", 4)
    start = StreamOffset({TopicPartition("alerts", 0): 3}).to_json()
    for attempt in (lambda: stream_of(log).latest(start, None), lambda: stream_of(log).pieces(start, start)):
        with pytest.raises(
            ConfigurationError, match=r"belongs to topic alerts.*reads readings.*checkpointLocation"
        ):
            attempt()


def test_a_checkpoint_of_another_group_is_refused(log: FakeLog) -> None:
    """A checkpoint that began with one group's commits does not go on for another."""
    log.grow("readings", 9)
    log.commits = {"home": {P0: 4}, "barn": {P0: 2}}
    stream = stream_of(log, startingOffsets="group", groupId="home")
    end, pieces = batch(stream, stream.initial())
    assert pieces == [Piece("readings", 0, 4, 9)]
    other = stream_of(log, startingOffsets="group", groupId="barn")
    with pytest.raises(ConfigurationError, match=r"group 'home'.*groupId is 'barn'"):
        other.latest(end, None)


def test_a_damaged_first_offset_is_refused(log: FakeLog) -> None:
    """An end of batch 0 that does not say where it began cannot be replayed."""
    log.grow("readings", 9)
    stream = stream_of(log)
    with pytest.raises(ConfigurationError, match="does not contain the start of its first batch"):
        stream.pieces(stream.initial(), StreamOffset({P0: 9}).to_json())


def test_the_logs_ends_are_reported_for_the_lag(log: FakeLog) -> None:
    """A query's progress shows how far the logs went when the batch was planned, limit or not."""
    log.grow("readings", 9, 2)
    stream = stream_of(log, startingOffsets="earliest")
    assert stream.seen() is None
    stream.latest(stream.initial(), 3)
    assert stream.seen() == {"readings": {"0": 9, "1": 2}}


def test_a_batch_costs_one_look_at_the_ends(log: FakeLog) -> None:
    """The logs' beginnings are asked for once, not before each batch."""
    log.grow("readings", 9)
    stream = stream_of(log, startingOffsets="earliest")
    end, _ = batch(stream, stream.initial())
    log.asked.clear()
    for size in (12, 15):
        log.grow("readings", size)
        end, _ = batch(stream, end)
    assert log.asked == ["ends", "ends"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the time, which a test moves."""
    now = SimpleNamespace(s=1000.0)
    monkeypatch.setattr(stream_module, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


WAITING = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1m"}


def test_a_small_batch_waits_for_more_records_up_to_its_time(log: FakeLog, clock: SimpleNamespace) -> None:
    """The run's first one does not; what waits costs one look, and its time counts from the last batch."""
    log.grow("readings", 1, 1)
    stream = stream_of(log, **WAITING)
    end, pieces = batch(stream, stream.initial())
    assert covered(pieces) == [(0, 0), (1, 0)]
    log.asked.clear()
    log.grow("readings", 5, 6)  # nine
    clock.s += 59
    assert stream.latest(end, None) == end
    assert log.asked == ["ends"]
    log.grow("readings", 6, 6)
    full, pieces = batch(stream, end)
    assert len(covered(pieces)) == 10
    log.grow("readings", 7, 6)
    clock.s += 59
    assert stream.latest(full, None) == full
    clock.s += 1
    late, pieces = batch(stream, full)
    assert covered(pieces) == [(0, 6)]
    clock.s += 100
    assert stream.latest(late, None) == late
    log.grow("readings", 8, 6)
    assert covered(batch(stream, late)[1]) == [(0, 7)]


def test_what_has_to_be_noticed_does_not_wait(
    log: FakeLog, clock: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """A partition that was added, one that is gone, a log that is cut: once, with the batch that has it."""
    log.grow("readings", 20)
    stream = stream_of(log, failOnDataLoss="false", **WAITING)
    end, _ = batch(stream, stream.initial())
    log.grow("readings", 21, 1)
    end, pieces = batch(stream, end)
    assert covered(pieces) == [(0, 20), (1, 0)]
    log.last[P0] = 3
    end, pieces = batch(stream, end)
    assert covered(pieces)[:3] == [(0, 0), (0, 1), (0, 2)]
    del log.last[P1]
    end, _ = batch(stream, end)
    assert "readings[1]" in caplog.text
    assert stream.latest(end, None) == end


def test_a_log_that_became_shorter_while_a_batch_waits_is_looked_at(
    log: FakeLog, clock: SimpleNamespace
) -> None:
    """It still lies above the position, where a topic that was made anew would not show by itself."""
    log.grow("readings", 20)
    stream = stream_of(log, **WAITING)
    end, _ = batch(stream, stream.initial())
    log.grow("readings", 28)
    assert stream.latest(end, None) == end
    log.make_anew("readings", 24)
    with pytest.raises(OffsetGapError, match="topic 'readings' holds other records"):
        stream.latest(end, None)


def test_a_query_of_what_is_there_does_not_wait(log: FakeLog, clock: SimpleNamespace) -> None:
    """Trigger.AvailableNow reads the last few records as well."""
    log.grow("readings", 12)
    stream = stream_of(log, **WAITING)
    stream.prepare_available_now()
    end, _ = batch(stream, stream.initial(), 10)
    assert len(covered(batch(stream, end, 10)[1])) == 2
