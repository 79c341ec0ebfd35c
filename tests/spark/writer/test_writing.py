"""Frames of a session written to a broker: what arrives, and the last line of what a user sees otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker
from tests.kit.topic_read import read_messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")
from pyspark.errors import AnalysisException, StreamingQueryException

ENOUGH_S = 200


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with three records to read, and a topic to write to."""
    with EmbeddedBroker({"numbers": 1, "readings": 4}) as running:
        running.produce("numbers", [(b"k%d" % number, b"%d" % number) for number in range(3)])
        yield running


@pytest.fixture
def numbers(spark: SparkSession, broker: EmbeddedBroker) -> DataFrame:
    """Three rows in one partition, with the source's columns."""
    return spark.read.format("ehkafka").options(**at(broker), subscribe="numbers").load()


@pytest.fixture
def stream(spark: SparkSession, broker: EmbeddedBroker) -> DataFrame:
    """The same rows as a stream."""
    options = {**at(broker), "subscribe": "numbers", "startingOffsets": "earliest"}
    return spark.readStream.format("ehkafka").options(**options).load()


def at(broker: EmbeddedBroker) -> dict[str, str]:
    """Return the options that name the broker."""
    return {"kafka.bootstrap.servers": broker.bootstrap}


def run(frame: DataFrame, checkpoint: Path, mode: str = "append", **options: str) -> None:
    """Write a stream, all that is there."""
    writer = frame.writeStream.format("ehkafka").options(**options).outputMode(mode)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    assert query.awaitTermination(ENOUGH_S), "the query did not end"


def last_line(reported: Exception) -> str:
    """Return the sentence in which Spark's words end, but for what it says of the query."""
    return [line for line in str(reported).splitlines() if "Error: " in line][-1]


def test_a_frame_is_written_as_the_jvm_sink_writes_it(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Text or bytes, keys that are null, tombstones, headers, partitions, topics of the rows."""
    broker.create_topic("others", 2)
    rows: Sequence[Any] = [
        ("others", "a", bytearray(b"1"), 1, [("h", bytearray(b"x")), ("h", None)], 1.5),
        ("others", None, bytearray(b"2"), 1, None, 1.5),
        ("others", "a", None, 1, [], 1.5),
    ]
    kinds = "topic STRING, key STRING, value BINARY, partition INT, price DOUBLE"
    headers = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    frame = spark.createDataFrame(rows, kinds.replace(", price", f", {headers}, price")).coalesce(1)
    frame.write.format("ehkafka").mode("append").options(**at(broker)).save()
    found = [
        (one.partition(), one.key(), one.value(), one.headers())
        for one in read_messages(broker.bootstrap, "others")
    ]
    assert found == [
        (1, b"a", b"1", [("h", b"x"), ("h", None)]),
        (1, None, b"2", None),
        (1, b"a", None, None),
    ]


def test_a_stream_is_written_batch_for_batch(
    stream: DataFrame, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Of a query from topic to topic, a limit makes three batches."""
    broker.create_topic("copies", 1)
    run(stream.selectExpr("key", "value"), tmp_path / "checkpoint", **at(broker), topic="copies")
    assert [(one.key(), one.value()) for one in read_messages(broker.bootstrap, "copies")] == [
        (b"k%d" % number, b"%d" % number) for number in range(3)
    ]


# One of each place that refuses: the columns, the topic, a row in its task, an option. The tests next to this
# one compare the words of the others.
WRONG: dict[str, tuple[list[str], dict[str, str], str]] = {
    "no value": (["key"], {"topic": "readings"}, "ConfigurationError: The frame has no column named value"),
    "unknown topic": (
        ["value"],
        {"topic": "raedings"},
        "the broker has no such topic. Did you mean 'readings'?",
    ),
    "unknown topic of a row": (
        ["value", "IF(offset = 1, 'reeding', 'readings') AS topic"],
        {},
        "TopicNotFoundError: Row 2 of the frame's partition 0 names topic 'reeding', which does not exist.",
    ),
    "secret": (
        ["value"],
        {"topic": "readings", "password": "hidden-1234"},
        "ConfigurationError: Option password contains a secret",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_written_ends_in_one_sentence(
    numbers: DataFrame, stream: DataFrame, broker: EmbeddedBroker, tmp_path: Path, wrong: str
) -> None:
    """The same by `save()` and by `start()`, in the last line; the topic is unchanged."""
    columns, given, says = WRONG[wrong]
    options = {**at(broker), **given}
    with pytest.raises(AnalysisException) as refused:
        numbers.selectExpr(*columns).write.format("ehkafka").mode("append").options(**options).save()
    assert says in last_line(refused.value)
    with pytest.raises(StreamingQueryException) as ended:
        run(stream.selectExpr(*columns), tmp_path / "checkpoint", **options)
    assert says in last_line(ended.value)
    assert "hidden-1234" not in str(refused.value) + str(ended.value)
    assert read_messages(broker.bootstrap, "readings") == []


def test_a_topic_is_never_overwritten(
    numbers: DataFrame, stream: DataFrame, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """Neither by a mode nor by an output mode that would replace all rows in each batch."""
    options = {**at(broker), "topic": "readings"}
    with pytest.raises(AnalysisException) as refused:
        numbers.write.format("ehkafka").mode("overwrite").options(**options).save()
    counts = stream.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
    with pytest.raises(StreamingQueryException) as ended:
        run(counts, tmp_path / "checkpoint", "complete", **options)
    for one in (refused, ended):
        assert "ConfigurationError: ehkafka only appends to a topic" in last_line(one.value)
    assert read_messages(broker.bootstrap, "readings") == []
