"""`spark.readStream.format("ehkafka")` on a real session: what is read, when, and over restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ehkafka.records import TopicPartition
from ehkafka.spark import lag
from ehkafka.spark.source.offsets import read

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from tests.spark.source.conftest import Queries

pytestmark = pytest.mark.timeout(600)


def _rows(*ranges: tuple[int, int]) -> list[tuple[int, int]]:
    return [(number, offset) for number, (first, end) in enumerate(ranges) for offset in range(first, end)]


def test_a_stream_reads_each_record_once_in_bounded_batches_over_restarts(queries: Queries) -> None:
    """AvailableNow with `maxOffsetsPerTrigger`, then the same checkpoint again: only what is new.

    `commitOffsets`: the group has what was read, the last batch included.
    """
    queries.produce(30, 50)
    commits = {"groupId": "copies", "commitOffsets": "true"}
    sink, query = queries.start(startingOffsets="earliest", maxOffsetsPerTrigger="32", **commits)
    assert queries.committed("copies") == {0: 30, 1: 50}
    assert sink.rows == _rows((0, 30), (0, 50))
    assert [len(sink.batches[batch]) for batch in sorted(sink.batches)] == [32, 32, 16]
    first, *_, last = [one for one in query.recentProgress if one["numInputRows"]]
    assert read(last["sources"][0]["endOffset"]).positions == {
        TopicPartition("readings", 0): 30,
        TopicPartition("readings", 1): 50,
    }
    assert sum(lag(first).values()) == 80 - 32
    assert sum(lag(last).values()) == 0
    # What Spark writes down of batch 0 says where it began and where it ended.
    written = queries.offset(0)
    assert list(written.pop("#witness")) == ["readings"]  # a broker without ids
    assert written == {
        "#start": {"readings": {"0": 0, "1": 0}},
        "readings": {"0": 12, "1": 20},
    }
    queries.produce(0, 5)
    sink, _ = queries.start(startingOffsets="earliest", maxOffsetsPerTrigger="32")
    assert sink.rows == _rows((0, 0), (50, 55))


def test_an_idle_stream_makes_no_batches(queries: Queries) -> None:
    """Trap: offsets are compared as JSON text; another order of keys made endless empty batches."""
    queries.produce(3, 4)
    sink, query = queries.start(now=False, startingOffsets="earliest")
    for _ in range(3):
        query.processAllAvailable()  # a look at the source each
    queries.produce(1, 0)
    query.processAllAvailable()
    query.stop()
    assert sorted(sink.batches) == [0, 1]
    assert sink.rows == _rows((0, 4), (0, 4))
    offsets = queries.checkpoint / "offsets"
    assert sorted(file.name for file in offsets.iterdir() if file.name.isdecimal()) == ["0", "1"]
    written = queries.offset(1)
    assert written.pop("#witness") == queries.offset(0)["#witness"]
    assert written == {"readings": {"0": 4, "1": 4}}
