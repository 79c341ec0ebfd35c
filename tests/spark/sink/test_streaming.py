from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from tests.kit.azurite import ACCOUNT_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.broker

SCHEMA = "home string, n long"


class Stream:
    """A folder of JSON files as a stream: each file is one batch."""

    def __init__(self, spark: SparkSession, directory: Path, written: Any) -> None:
        self._spark = spark
        self._files = directory / "input"
        self._files.mkdir()
        self.checkpoint = directory / "checkpoint"
        self._options = {**written.options, "path": "homes"}

    def add(self, *numbers: int) -> None:
        """Add a file, and with it a batch."""
        lines = [json.dumps({"home": f"h{number % 3}", "n": number}) for number in numbers]
        # Spark orders files by their time, which is too coarse for files made one after another.
        path = self._files / f"{len(list(self._files.iterdir())):03d}.json"
        path.write_text("\n".join(lines))
        when = time.time() - 1000 + len(list(self._files.iterdir()))
        os.utime(path, (when, when))

    def frame(self) -> DataFrame:
        """Return the stream."""
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._files))

    def run(
        self, frame: DataFrame | None = None, mode: str = "append", checkpoint: str = "", **options: str
    ) -> Any:
        """Write all there is, and return the query when it has ended."""
        chosen = {**self._options, "checkpointLocation": checkpoint or str(self.checkpoint), **options}
        frame = self.frame() if frame is None else frame
        writer = frame.writeStream.format("ehkafka-blob").options(**chosen).outputMode(mode)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(240)
        return query

    def forget_commit(self, batch: int) -> None:
        """Do as if the driver had died before Spark noted that a batch is done."""
        for path in (self.checkpoint / "commits").glob(f"*{batch}*"):
            path.unlink()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, written: Any) -> Stream:
    """Return an empty stream that writes into the container."""
    return Stream(spark, tmp_path, written)


def numbers(written: Any) -> list[int]:
    """Return what readers see."""
    return sorted(row["n"] for row in written.rows())


def test_a_stream_is_there_once_over_a_restart_and_its_secret_nowhere(
    stream: Stream, written: Any, spark_events: Path
) -> None:
    """`format("ehkafka-blob")` needs no registration; batches go on after a restart; the key is nowhere."""
    stream.add(1, 2, 3)
    first = stream.run()
    stream.add(4, 5)
    stream.run()
    assert numbers(written) == [1, 2, 3, 4, 5]
    assert {batch: each["rows"] for batch, each in written.manifests().items()} == {0: 3, 1: 2}
    seen = [
        first._jsq.explainInternal(True),
        *(json.dumps(each.json) for each in first.recentProgress),
        *(path.read_text(errors="replace") for path in stream.checkpoint.rglob("*") if path.is_file()),
        *(path.read_text(errors="replace") for path in spark_events.rglob("*") if path.is_file()),
    ]
    assert len([text for text in seen if "ehkafka-blob" in text or "homes" in text]) > 1
    assert not [text for text in seen if ACCOUNT_KEY in text], "FACT: a secret is shown"


def test_a_replayed_batch_is_there_once_whatever_its_tasks(stream: Stream, written: Any) -> None:
    """A driver that died after its commit, then one amid its commit; the replays have other partitions."""
    stream.add(*range(20))
    stream.run(stream.frame().repartition(3))
    before = written.names()
    stream.forget_commit(0)
    stream.run(stream.frame().repartition(2))
    assert written.names() == before
    stream.forget_commit(0)
    written.delete("homes/batch=000000000000/_manifest.json")
    stream.run(stream.frame().repartition(2))
    assert numbers(written) == list(range(20))
    assert len(written.manifests()[0]["blobs"]) == 2


def test_a_batch_that_fails_shows_nothing_and_is_repeated(stream: Stream, written: Any) -> None:
    """No blob of a failed batch is seen; the restarted query writes it under the same number."""
    stream.add(*range(6))
    frame = stream.frame().repartition(2)
    broken = frame.withColumn("n", F.expr("if(n = 3, raise_error('not yet'), n)"))
    with pytest.raises(StreamingQueryException, match="not yet"):
        stream.run(broken)
    assert numbers(written) == []
    stream.run(frame)
    assert numbers(written) == list(range(6))
    assert list(written.manifests()) == [0]


def test_parquet_is_read_back_by_spark_with_the_batch_as_a_column(
    stream: Stream, written: Any, spark: SparkSession, tmp_path: Path
) -> None:
    """The folder is one that Spark and others understand; the manifests are not in their way."""
    stream.add(0, 1)
    stream.add(2)
    frame = stream.frame().withColumn("at", F.current_timestamp()).withColumn("tags", F.array("home"))
    stream.run(frame, fileFormat="parquet", compression="zstd")
    for name in written.names():
        path = tmp_path / "copy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written.content(name))
    read = spark.read.parquet(str(tmp_path / "copy" / "homes"))
    rows = {(row["batch"], row["home"], row["n"], *row["tags"]) for row in read.collect()}
    assert rows == {(0, "h0", 0, "h0"), (0, "h1", 1, "h1"), (1, "h2", 2, "h2")}
    assert dict(read.dtypes)["at"] == "timestamp"


def test_hostile_values_at_any_depth_come_through_spark(stream: Stream, written: Any) -> None:
    """Text that is no UTF-8, far times, NaN, two names that look alike: written, in what Spark sends."""
    text = "decode(unhex('61'), 'utf-8') || cast(unhex('ff') as string)"
    columns = {
        "text": f"named_struct('list', array({text}, null))",
        "map": "map(cast(unhex('ff') as string), 1, cast(unhex('fe') as string), 2)",
        "times": "array(timestamp_micros(4611686018427387904), timestamp_micros(0))",
        "days": "map('far', date_from_unix_date(2932897), 'early', date_from_unix_date(-719163))",
        "reals": "array(double('NaN'), double('-Infinity'), 0.5D)",
        "exact": "named_struct('n', cast('12345678901234567890123456789.123456789' as decimal(38, 9)))",
    }
    stream.add(0)
    stream.run(stream.frame().selectExpr(*(f"{form} as {name}" for name, form in columns.items())))
    (name,) = [name for name in written.names() if name.endswith(".jsonl")]
    assert json.loads(written.content(name), parse_float=str) == {
        "text": {"list": ["a\ufffd", None]},
        "map": {"\ufffd": 1, "\ufffd#2": 2},
        "times": ["+148108-07-06T14:00:27.387904Z", "1970-01-01T00:00:00Z"],
        "days": {"far": "+10000-01-01", "early": "0000-12-31"},
        "reals": ["NaN", "-Infinity", "0.5"],
        "exact": {"n": "12345678901234567890123456789.123456789"},
    }


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"connectionString": f"AccountKey={ACCOUNT_KEY}"}, "connectionStringEnv"),
        ({"container": "not-there"}, "Create the container"),
    ],
)
def test_bad_options_are_one_error_before_the_first_task(
    stream: Stream, written: Any, change: dict[str, Any], reported: str
) -> None:
    """The driver says it; no task was started, nothing is in the container."""
    stream.add(1)
    with pytest.raises(Exception, match=reported) as refused:
        stream.run(**change)
    assert "Task" not in str(refused.value).splitlines()[0]
    assert ACCOUNT_KEY not in str(refused.value)
    assert written.names() == []


def test_the_sink_is_found_by_its_name(spark: SparkSession) -> None:
    """Reading from it says what to read with instead."""
    with pytest.raises(Exception, match=r"spark\.read\.json"):
        spark.read.format("ehkafka-blob").option(
            "containerUrl", "https://a.blob.core.windows.net/abc"
        ).option("path", "x").load()
