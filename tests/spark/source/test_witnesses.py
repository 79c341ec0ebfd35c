"""Row 23 for the source where the broker has no topic ids: one record of each log tells a new one.

The new log is the longer one, so positions of the old one lie inside of it and no offset is out of range.
"""

from __future__ import annotations

import itertools
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.errors import OffsetGapError
from ehkafka.positions.same_log import Reading
from ehkafka.ranges.anew import made_anew
from ehkafka.ranges.places import Piece
from ehkafka.records import TopicPartition
from ehkafka.spark.source.offsets import StreamOffset
from tests.spark.source.conftest import FakeLog, batch, covered, read_all_of, stream_of

P0, P1, Q0 = TopicPartition("readings", 0), TopicPartition("readings", 1), TopicPartition("others", 0)
OLD, NEW = 30, 80
IDS = {"readings": bytes(range(16))}
GOES_ON = {"startingOffsets": "earliest", "failOnDataLoss": "false"}


def witnesses(offset: dict[str, Any]) -> dict[TopicPartition, int]:
    """Return the offsets of the records that an offset carries."""
    return {one: at for one, (at, _) in StreamOffset.from_json(offset).witnesses.items()}


@pytest.fixture
def nameless(log: FakeLog) -> FakeLog:
    """Return a log whose topic has no id."""
    log.grow("readings", OLD, OLD)
    return log


def due(log: FakeLog) -> None:
    """Let a minute pass."""
    log.is_due = True


def test_a_restart_tells_the_topic_and_the_record(nameless: FakeLog) -> None:
    """`failOnDataLoss=true`: it ends before its first batch and says what tells, and what to do."""
    end = read_all_of(nameless)
    nameless.make_anew("readings", NEW, NEW)
    with pytest.raises(
        OffsetGapError,
        match=r"topic 'readings' holds other records \(in readings\[0\]: the record at offset 28 had the "
        r"timestamp 1970-01-01T00:00:01\.028.*, and now has 1970-01-02T.*, and so in 1 more partition\)\. "
        r".*deleted and "
        r"recreated under its name.*set failOnDataLoss=false",
    ):
        stream_of(nameless).latest(end, None)


@pytest.mark.parametrize(
    ("ends", "ids", "is_restarted"),
    [
        *itertools.product([(NEW, NEW), (OLD, OLD), (NEW, OLD)], [{}], [False, True]),
        ((NEW, NEW), IDS, False),
        ((OLD, OLD), IDS, True),
    ],
)
def test_the_new_log_is_read_from_its_beginning_once(
    nameless: FakeLog,
    caplog: pytest.LogCaptureFixture,
    ends: tuple[int, int],
    ids: dict[str, bytes],
    *,
    is_restarted: bool,
) -> None:
    """`failOnDataLoss=false`: one warning, all of the new log once, also where a batch is replayed."""
    nameless.ids = dict(ids)
    stream = stream_of(nameless, **GOES_ON)
    start = batch(stream, stream.initial())[0]
    nameless.make_anew("readings", *ends)
    if is_restarted:
        stream = stream_of(nameless, **GOES_ON)
    else:
        due(nameless)
    read = []
    with caplog.at_level(logging.WARNING, "ehkafka.spark"):
        while (found := batch(stream, start, 50))[1]:
            assert stream_of(nameless, **GOES_ON).pieces(start, found[0]) == found[1]
            read += found[1]
            start = found[0]
            due(nameless)
    assert covered(read) == [(partition, offset) for partition in (0, 1) for offset in range(ends[partition])]
    assert len(caplog.records) == 1
    assert StreamOffset.from_json(start).topic_ids == nameless.ids
    assert witnesses(start) == ({} if ids else {P0: ends[0] - 2, P1: ends[1] - 2})


def test_a_log_that_became_shorter_is_looked_at_at_once(nameless: FakeLog) -> None:
    """It ends behind the position still, but not where it ended before: the stream does not wait a minute."""
    stream = stream_of(nameless, **GOES_ON)
    start = batch(stream, stream.initial())[0]
    nameless.grow("readings", 3 * NEW, OLD)
    start = batch(stream, start, 1)[0]
    nameless.make_anew("readings", NEW, NEW)
    assert batch(stream, start)[1] == [Piece("readings", 0, 0, NEW), Piece("readings", 1, 0, NEW)]


def test_nothing_that_is_known_is_read_without_need(nameless: FakeLog) -> None:
    """One look a minute: idle it reads what is carried alone, and the offset keeps its very text."""
    stream = stream_of(nameless, startingOffsets="earliest")
    end, _ = batch(stream, stream.initial())
    assert nameless.asked.pop(-2) == "records 2 0"
    nameless.asked.clear()
    for _ in range(3):
        assert json.dumps(stream.latest(end, None)) == json.dumps(end)
    nameless.grow("readings", OLD + 5, OLD)
    end, _ = batch(stream, end)
    assert not [one for one in nameless.asked if one.startswith("records")]
    assert witnesses(end) == {P0: OLD - 2, P1: OLD - 2}
    due(nameless)
    assert json.dumps(stream.latest(end, None)) == json.dumps(end)
    due(nameless)
    nameless.grow("readings", OLD + 9, OLD)
    end, _ = batch(stream, end)
    assert [one for one in nameless.asked if one.startswith("records")] == ["records 0 2", "records 1 2"]
    assert witnesses(end) == {P0: OLD + 7, P1: OLD - 2}


def test_where_ids_are_known_no_record_is_read(nameless: FakeLog) -> None:
    """Nothing changes on a broker that has them: no look, and nothing more in the offset."""
    nameless.ids["readings"] = bytes(range(16))
    stream = stream_of(nameless, startingOffsets="earliest")
    end, _ = batch(stream, stream.initial())
    due(nameless)
    nameless.grow("readings", NEW, NEW)
    end, _ = batch(stream, end)
    batch(stream_of(nameless), end)
    assert not [one for one in nameless.asked if one.startswith("records")]
    assert "#witness" not in end


def test_a_record_decides_once_before_a_first_id_does(nameless: FakeLog) -> None:
    """A broker that has come to have ids: the first one is of the log that the positions are of."""
    end = read_all_of(nameless)
    nameless.ids["readings"] = bytes(range(16))
    made = FakeLog(ids=dict(nameless.ids))
    made.make_anew("readings", NEW, NEW)
    with pytest.raises(OffsetGapError, match="holds other records"):
        stream_of(made).latest(end, None)
    stream = stream_of(nameless)
    nameless.grow("readings", OLD + 5, OLD)
    after = StreamOffset.from_json(batch(stream, end)[0])
    assert (after.topic_ids, after.witnesses) == (nameless.ids, {})
    due(nameless)
    nameless.asked.clear()
    nameless.grow("readings", OLD + 9, OLD)
    batch(stream, after.to_json())
    assert nameless.asked == ["ends", "ids"]


@pytest.mark.parametrize("gone", ["retention", "compaction", "late"])
def test_what_is_missing_proves_nothing_and_is_kept(nameless: FakeLog, gone: str) -> None:
    """A record that the log has no more, or that was not read in time: the query goes on, and keeps it."""
    end = read_all_of(nameless)
    if gone == "retention":
        nameless.first[P0] = OLD
    elif gone == "compaction":
        nameless.holes |= {(P0, OLD - 2), (P0, OLD - 1)}
    else:
        nameless.unread.add(P0)
    stream = stream_of(nameless)
    nameless.grow("readings", OLD + 1, OLD)
    if gone != "late":
        nameless.holes.add((P0, OLD))
    after, pieces = batch(stream, end)
    assert pieces == [Piece("readings", 0, OLD, OLD + 1)]
    assert witnesses(after) == {P0: OLD - 2, P1: OLD - 2}
    nameless.asked.clear()
    batch(stream, after)
    assert nameless.asked == ["ends"], "FACT: what was not read is asked for again before its time"


def test_a_newer_record_takes_the_place_of_one_that_is_gone(nameless: FakeLog) -> None:
    """Retention took the old one: the next that is read is recognised by a new one."""
    end = read_all_of(nameless)
    nameless.first |= {P0: OLD, P1: OLD}
    nameless.grow("readings", NEW, OLD)
    assert witnesses(batch(stream_of(nameless), end)[0]) == {P0: NEW - 2, P1: OLD - 2}


def test_the_end_of_a_transaction_is_no_record(nameless: FakeLog) -> None:
    """Its marker is the last offset; the one before tells."""
    nameless.holes |= {(P0, OLD - 1), (P1, OLD - 1)}
    assert witnesses(read_all_of(nameless)) == {P0: OLD - 2, P1: OLD - 2}


def test_a_record_behind_the_batch_is_not_carried(nameless: FakeLog) -> None:
    """With a limit, and holes before its end: the next record was not planned yet, so the older one stays."""
    nameless.holes |= {(P0, offset) for offset in range(3, 20)}
    stream = stream_of(nameless, startingOffsets="earliest")
    end, _ = batch(stream, stream.initial(), 4)
    assert StreamOffset.from_json(end).positions == {P0: 2, P1: 2}
    due(nameless)
    end, _ = batch(stream, end, 8)
    assert StreamOffset.from_json(end).positions == {P0: 6, P1: 6}
    assert witnesses(end) == {P0: 0, P1: 4}


def test_a_moment_that_cannot_be_said_is_left_out(nameless: FakeLog) -> None:
    """A producer's timestamps may be any numbers, and must not end a query."""
    nameless.written_ms["readings"] = -1_000_000
    assert witnesses(read_all_of(nameless)) == {}


@pytest.mark.parametrize("is_late", [False, True], ids=["during the look", "before it"])
def test_a_record_of_a_new_log_is_not_believed_unless_the_old_one_was_looked_for(
    nameless: FakeLog, *, is_late: bool
) -> None:
    """Newer records are read first: whose they are the old ones tell, now or at the next look."""
    stream = stream_of(nameless, **GOES_ON)
    start, _ = batch(stream, stream.initial())
    nameless.grow("readings", OLD + 20, OLD + 20)
    due(nameless)

    def make_anew() -> None:
        nameless.in_between = lambda: None
        nameless.make_anew("readings", NEW, NEW)

    if is_late:
        make_anew()
        nameless.in_between = lambda: nameless.unread.update((P0, P1))
        start, pieces = batch(stream, start)
        assert covered(pieces)[0] == (0, OLD)
        assert witnesses(start) == {P0: OLD - 2, P1: OLD - 2}
        nameless.in_between = lambda: None
        nameless.unread.clear()
        due(nameless)
    else:
        nameless.in_between = make_anew
    assert batch(stream, start)[1] == [Piece("readings", 0, 0, NEW), Piece("readings", 1, 0, NEW)]


def test_a_log_that_was_cut_is_no_topic_made_anew(
    nameless: FakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Another partition still has its record: that one goes on, and the cut one begins with its log."""
    end = read_all_of(nameless)
    nameless.grow("readings", 9, OLD + 1)
    with caplog.at_level(logging.WARNING, "ehkafka.spark"):
        pieces = batch(stream_of(nameless, **GOES_ON), end)[1]
    assert pieces == [Piece("readings", 0, 0, 9), Piece("readings", 1, OLD, OLD + 1)]
    assert "log was truncated" in caplog.text


def test_an_offset_of_an_earlier_version_gets_records(nameless: FakeLog) -> None:
    """Idle it stays as it is, and the run knows its log all the same; the next one carries them."""
    before = {"readings": {"0": OLD, "1": OLD}}
    stream = stream_of(nameless, **GOES_ON)
    assert json.dumps(stream.latest(before, None)) == json.dumps(before)
    nameless.make_anew("readings", NEW, NEW)
    due(nameless)
    after, pieces = batch(stream, before)
    assert len(covered(pieces)) == 2 * NEW
    assert witnesses(after) == {P0: NEW - 2, P1: NEW - 2}


@pytest.mark.parametrize("comes", ["first", "anew"])
def test_a_topic_that_gets_its_first_records_is_reported_by_them(log: FakeLog, comes: str) -> None:
    """Nothing was there at the last look: the first batch that reads anything brings the next one."""
    log.grow("others", OLD)
    log.grow("readings", 0 if comes == "first" else OLD)
    stream = stream_of(log, **GOES_ON)
    end, _ = batch(stream, stream.initial())
    if comes == "anew":
        log.make_anew("readings", 0)
        end, _ = batch(stream, end)
    log.grow("readings", OLD)
    assert witnesses(batch(stream, end)[0]) == {P0: OLD - 2, Q0: OLD - 2}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(1, 20), st.integers(0, 20)),
        st.tuples(st.just("anew"), st.integers(0, 60), st.integers(0, 60)),
        st.tuples(st.just("batch"), st.integers(1, 40), st.just(0)),
        st.tuples(st.just("minute"), st.just(0), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(STEPS)
def test_every_record_of_the_last_log_is_read(steps: list[tuple[str, int, int]]) -> None:
    """Whatever happens in which order: after the next look nothing of the topic that is there is missing."""
    log = FakeLog()
    log.grow("readings", 1, 1)
    stream = stream_of(log, **GOES_ON)
    start: Any = stream.initial()
    read: list[Piece] = []
    for what, one, other in [*steps, ("minute", 0, 0), ("batch", 1000, 0), ("batch", 1000, 0)]:
        if what == "grow":
            log.grow("readings", log.last[P0] + one, log.last[P1] + other)
        elif what == "anew":
            log.make_anew("readings", one, other)
            read = []
        elif what == "batch":
            start, pieces = batch(stream, start, one)
            read += pieces
        elif what == "minute":
            due(log)
        else:
            due(log)
            stream = stream_of(log, **GOES_ON)
    there = {(one.partition, offset) for one, end in log.last.items() for offset in range(end)}
    assert there <= set(covered(read))


@pytest.mark.parametrize(
    ("readings", "topics"),
    [
        ({}, set()),
        ({P0: Reading((28, 1)), P1: Reading((28, 1))}, set()),
        ({P0: Reading((28, 2)), P1: Reading((28, 1))}, {"readings"}),
        ({P0: Reading((29, 2)), P1: Reading(None)}, set()),
        ({P0: Reading(None, 5)}, {"readings"}),
        ({P0: Reading(None, 5), P1: Reading((28, 1))}, set()),
        ({P0: Reading(None, 5), P1: Reading((28, 2))}, {"readings"}),
        ({P0: Reading(None, 5), Q0: Reading((28, 1))}, {"readings"}),
    ],
)
def test_what_tells_of_a_new_log(readings: dict[TopicPartition, Reading], topics: set[str]) -> None:
    """Another timestamp, or a log that ends before; not one that is cut while others of it stand."""
    assert set(made_anew(dict.fromkeys((P0, P1, Q0), (28, 1)), readings)) == topics
