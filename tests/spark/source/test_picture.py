"""A query's partitions as metrics see them, by what its progress says."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.records import TopicPartition
from ehkafka.spark.source.lag import lag
from ehkafka.spark.source.picture import QueryPicture

P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)


def source(start: Any, end: Any, latest: Any = None) -> dict[str, Any]:
    """Return what a progress has of a source of ours: two partitions' positions each."""
    return {"startOffset": _offset(start), "endOffset": _offset(end), "latestOffset": _offset(latest)}


def _offset(positions: Any) -> Any:
    if not isinstance(positions, tuple):
        return positions
    return {"readings": {str(number): at for number, at in enumerate(positions)}}


def taken(*sources: dict[str, Any], took_ms: int = 250) -> QueryPicture:
    """Return the picture after a progress of each of these."""
    picture = QueryPicture()
    for one in sources:
        report = {"sources": [{"numInputRows": 1, **one}], "durationMs": {"triggerExecution": took_ms}}
        picture.take(report)
    return picture


def shown(picture: QueryPicture, **given: Any) -> list[tuple[Any, ...]]:
    """Return name, lag, position and count of each partition."""
    return [
        (one.partition, one.lag_records, one.watermark, one.received_records)
        for one in picture.partitions(**given)
    ]


def test_lag_position_and_count_of_each_partition() -> None:
    """The lag is that of the last progress, or of the ends that are known better; the count goes on."""
    picture = taken(source((5, 0), (8, 4), (9, 4)), source((8, 4), (9, 6), (20, 6)))
    assert shown(picture) == [(P0, 11, 9, 4), (P1, 0, 6, 6)]
    assert shown(picture, log_ends={P0: 29}) == [(P0, 20, 9, 4), (P1, None, 6, 6)]
    assert (picture.received_records, picture.batch_s) == (10, 0.25)


@pytest.mark.parametrize(
    ("start", "end", "received"),
    [
        ({"#start": "unresolved"}, {"#start": {"readings": {"0": 3}}, "readings": {"0": 7}}, 4),
        (None, {"readings": {"0": 7}}, 0),  # the JVM connector does not say where its first batch began
        ({"readings": {"1": 2}}, {"readings": {"0": 7, "1": 2}}, 7),  # the topic has grown
    ],
    ids=["first batch", "unknown", "grown"],
)
def test_what_a_first_progress_counts(start: Any, end: Any, received: int) -> None:
    """The batch that it sees, from where it began."""
    assert shown(taken(source(start, end)))[0] == (P0, None, 7, received)


def test_a_recreated_topic_takes_nothing_back() -> None:
    """A counter never falls; from the new log on it goes on."""
    picture = taken(source((5, 0), (8, 0)), source((8, 0), (2, 0)), source((2, 0), (4, 0)))
    assert shown(picture)[0] == (P0, None, 4, 5)


def test_a_partition_that_is_gone_has_no_lag_any_more() -> None:
    """Its topic was deleted, and the query continues without it; what it had counts on."""
    found = shown(taken(source((5, 0), (8, 4), (9, 9)), source((8, 4), (9,), (9,))))
    assert found == [(P0, 0, 9, 4), (P1, None, 4, 4)]


def test_of_two_sources_of_a_partition_the_one_further_behind_counts() -> None:
    """As where a stream is joined with itself. Both have received."""
    ahead, behind = source((5, 0), (9, 0), (9, 0)), source((2, 0), (4, 0), (9, 0))
    for sources in ([ahead, behind], [behind, ahead]):
        progress = {"sources": [{"numInputRows": 1, **one} for one in sources]}
        picture = QueryPicture()
        picture.take(progress)
        picture.take(progress)
        assert shown(picture) == [(P0, 5, 4, 6), (P1, 0, 0, 0)]
        assert lag(progress) == {P0: 5, P1: 0}


def test_progress_that_was_left_out_is_made_up_for() -> None:
    """Whoever scrapes sees one progress in a hundred."""
    assert shown(taken(source((5, 0), (8, 0)), source((90, 0), (95, 0))))[0][3] == 90


def test_an_idle_trigger_keeps_the_last_batchs_time_and_other_sources_have_no_partition() -> None:
    """A trigger without records takes no time worth showing."""
    picture = taken(source((5, 0), (8, 0)))
    rate = {"startOffset": "10", "endOffset": "11", "latestOffset": "11", "numInputRows": 0}
    picture.take({"sources": [rate], "durationMs": {"triggerExecution": 3}})
    assert picture.batch_s == 0.25
    assert len(shown(picture)) == 2
