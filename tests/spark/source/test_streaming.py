"""`spark.readStream.format("ehkafka")` on a real session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.records import TopicPartition
from ehkafka.spark import lag
from ehkafka.spark.source.offsets import decode

pytest.importorskip("pyspark")
from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ehkafka.testing import EmbeddedBroker

Rows = list[tuple[int, int]]
# A query of a second may take minutes beside others; whoever hangs is told by the time-out.
ENOUGH_S = 200
# How Spark says that the process in which a source plans took more than 10 s to start; then it starts anew.
HASTE = "Python worker failed to connect back"
pytestmark = pytest.mark.timeout(600)


class Sink:
    """Keeps (partition, offset) of every batch, by batch id: a batch that is replayed replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, Rows] = {}
        self.fails_at: int | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        rows = sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
        self.batches[batch_id] = rows
        if batch_id == self.fails_at:
            raise RuntimeError("this batch is to fail")

    @property
    def rows(self) -> Rows:
        """Everything, in order of batches."""
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]


@pytest.fixture
def start(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Callable[..., StreamingQuery]:
    """Return what starts a query with one checkpoint directory; `now` ends it when all is read.

    Either way all that is there has been read when it returns.
    """

    def run(sink: Sink, *, now: bool = True, **given: str) -> StreamingQuery:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings", **given}
        frame = spark.readStream.format("ehkafka").options(**options).load()
        writer = frame.writeStream.foreachBatch(sink).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writer = writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")
        return _begun(writer, to_its_end=now)

    return run


def _begun(writer: DataStreamWriter, *, to_its_end: bool) -> StreamingQuery:
    """Return a query that has ended, or has worked off what was there."""
    while True:
        query = writer.start()
        try:
            if to_its_end:
                assert query.awaitTermination(ENOUGH_S), "the query did not end"
            else:
                query.processAllAvailable()
        except StreamingQueryException as error:
            if HASTE not in str(error):
                raise
        else:
            return query


def _produce(broker: EmbeddedBroker, *counts: int) -> None:
    for partition, count in enumerate(counts):
        if count:
            broker.produce("readings", [(b"k", b"v")] * count, partition=partition)


def _expected(*ranges: tuple[int, int]) -> Rows:
    return [(number, offset) for number, (first, end) in enumerate(ranges) for offset in range(first, end)]


def test_a_stream_reads_each_record_once_in_bounded_batches_over_restarts(
    broker: EmbeddedBroker, start: Callable[..., StreamingQuery]
) -> None:
    """AvailableNow with `maxOffsetsPerTrigger`, then the same checkpoint again: only what is new."""
    _produce(broker, 30, 50)
    sink = Sink()
    query = start(sink, startingOffsets="earliest", maxOffsetsPerTrigger="32")
    assert sorted(sink.rows) == _expected((0, 30), (0, 50))
    assert [len(sink.batches[batch]) for batch in sorted(sink.batches)] == [32, 32, 16]
    first, *_, last = [one for one in query.recentProgress if one["numInputRows"]]
    assert decode(last["sources"][0]["endOffset"]) == {
        TopicPartition("readings", 0): 30,
        TopicPartition("readings", 1): 50,
    }
    assert sum(lag(first).values()) == 80 - 32
    assert sum(lag(last).values()) == 0
    _produce(broker, 0, 5)
    start(sink, startingOffsets="earliest", maxOffsetsPerTrigger="32")
    assert sorted(sink.rows) == _expected((0, 30), (0, 55))


def test_a_first_batch_that_failed_is_replayed_from_where_it_began(
    broker: EmbeddedBroker, start: Callable[..., StreamingQuery], tmp_path: Path
) -> None:
    """Trap: Spark asks `initialOffset()` anew for a replay; a moving "latest" lost what came meanwhile."""
    _produce(broker, 10, 10)
    sink = Sink()
    idle = start(sink, now=False)  # at "latest"
    sink.fails_at = 1
    _produce(broker, 5, 0)
    with pytest.raises(StreamingQueryException, match="this batch is to fail"):
        idle.processAllAvailable()
    # As if the very first batch had never been finished.
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "offsets" / name).unlink(missing_ok=True)
    _produce(broker, 0, 7)
    again = Sink()
    start(again)
    assert sorted(again.rows) == _expected((10, 15), (10, 17))


def test_an_idle_stream_makes_no_batches(
    broker: EmbeddedBroker, start: Callable[..., StreamingQuery], tmp_path: Path
) -> None:
    """Trap: offsets are compared as JSON text; another order of keys made endless empty batches."""
    _produce(broker, 3, 4)
    sink = Sink()
    query = start(sink, now=False, startingOffsets="earliest")
    for _ in range(3):
        query.processAllAvailable()  # a look at the source each
    _produce(broker, 1, 0)
    query.processAllAvailable()
    query.stop()
    assert sorted(sink.batches) == [0, 1]
    assert sorted(sink.rows) == _expected((0, 4), (0, 4))
    written = sorted(
        file.name for file in (tmp_path / "checkpoint" / "offsets").iterdir() if file.name.isdecimal()
    )
    assert written == ["0", "1"]
    end = json.loads((tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()[2])
    assert end == {"readings": {"0": 4, "1": 4}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "raedings"}, "Did you mean 'readings'?"),
        ({"startingOffsets": '{"readings": {"0": 0}}'}, r"do not name readings\[1\]"),
        ({"kafka.fetch.wait.mx.ms": "1"}, "did you mean fetch.wait.max.ms?"),
    ],
)
def test_what_the_broker_does_not_have_ends_the_query_before_its_first_batch(
    start: Callable[..., StreamingQuery], given: dict[str, str], said: str
) -> None:
    """A missing topic, offsets without a partition, a misspelt property: one error that names it."""
    sink = Sink()
    with pytest.raises(StreamingQueryException, match=said):
        start(sink, now=False, **given)
    assert sink.batches == {}


def test_wrong_options_are_refused_when_the_query_is_built(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    """What needs no broker to be seen is an error of `load()`, without the secret that was given."""
    here = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings"}

    def error_of(**given: str) -> str:
        with pytest.raises(Exception, match="ConfigurationError") as caught:
            spark.readStream.format("ehkafka").options(**{**here, **given}).load().writeStream.format(
                "noop"
            ).start().processAllAvailable()
        return str(caught.value)

    assert "did you mean startingOffsets?" in error_of(startingOfsets="latest")
    assert "lose its order" in error_of(minPartitions="8")
    assert "a stream has no end" in error_of(endingOffsets="latest")
    said = error_of(connectionString="Endpoint=sb://x/;SharedAccessKey=c2VjcmV0;SharedAccessKeyName=x")
    assert "connectionStringEnv" in said
    assert "c2VjcmV0" not in said


def test_a_checkpoint_of_another_topic_is_refused(
    broker: EmbeddedBroker, start: Callable[..., StreamingQuery]
) -> None:
    """Both topics are named, and nothing is read."""
    broker.create_topic("alerts", 1)
    _produce(broker, 1, 1)
    start(Sink(), startingOffsets="earliest")
    sink = Sink()
    with pytest.raises(StreamingQueryException, match=r"is of readings.*reads alerts"):
        start(sink, subscribe="alerts", startingOffsets="earliest")
    assert sink.batches == {}


def test_lost_records_are_named_or_passed(
    broker: EmbeddedBroker, start: Callable[..., StreamingQuery]
) -> None:
    """`failOnDataLoss` both ways over a restart: the gap is named, or what is left is read."""
    _produce(broker, 10, 10)
    sink = Sink()
    start(sink, startingOffsets="earliest")
    _produce(broker, 10, 10)
    broker.delete_records("readings", 1, 15)
    with pytest.raises(StreamingQueryException, match=r"readings\[1\].*10 to 14 are gone"):
        start(sink, startingOffsets="earliest")
    start(sink, startingOffsets="earliest", failOnDataLoss="false")
    assert sorted(sink.rows) == sorted(
        _expected((0, 20), (0, 10)) + [(1, offset) for offset in range(15, 20)]
    )


def test_the_offset_file_is_readable(
    broker: EmbeddedBroker, start: Callable[..., Any], tmp_path: Path
) -> None:
    """What Spark writes down of batch 0 says where it began and where it ended."""
    _produce(broker, 2, 3)
    start(Sink(), startingOffsets="earliest")
    line = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[2]
    assert json.loads(line) == {
        "#start": {"readings": {"0": 0, "1": 0}},
        "readings": {"0": 2, "1": 3},
    }
