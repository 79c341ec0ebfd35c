from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark import TaskContext

from ehkafka.checkpoints.stores.store import StoreConflictError, StoreForbiddenError, StoreMissingError
from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.spark.sink.commit import commit
from ehkafka.spark.sink.container import SinkContainer, opened
from ehkafka.spark.sink.data_source import BlobDataSource
from ehkafka.spark.sink.options import sink_options
from ehkafka.spark.sink.stage import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ehkafka.spark.sink.data_source import Staged

QUERY = "6f0b5f2e-query"


class FakeTask(NamedTuple):
    """What Spark tells a task."""

    partition: int
    properties: dict[str, str]

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        """Return a property of the query."""
        return self.properties.get(name)

    def partitionId(self) -> int:  # noqa: N802
        """Return the task's number."""
        return self.partition


@pytest.fixture
def run_task(monkeypatch: pytest.MonkeyPatch, written: Any) -> Callable[..., Staged]:
    """Return what stages numbers as a task of a batch, as an executor does it."""
    options = sink_options({**written.options, "path": "out"})

    def run(batch: int, partition: int, numbers: Sequence[int], query: str = QUERY) -> Staged:
        task = FakeTask(partition, {"streaming.sql.batchId": str(batch), "sql.streaming.queryId": query})
        monkeypatch.setattr(TaskContext, "get", lambda: task)
        batches = iter([pa.record_batch({"n": pa.array(numbers, pa.int64())})] if numbers else [])
        message: Staged = pickle.loads(pickle.dumps(stage(options, batches)))
        return message

    return run


@pytest.fixture
def finish(written: Any) -> Callable[..., None]:
    """Return the driver's commit of a batch."""
    options = sink_options({**written.options, "path": "out"})
    return lambda batch, *messages: commit(options, messages, batch)


def numbers(written: Any) -> list[int]:
    """Return what readers see."""
    return sorted(row["n"] for row in written.rows())


def test_nothing_is_seen_before_the_driver_commits(run_task: Any, finish: Any, written: Any) -> None:
    """Staged rows are invisible; the commit shows all of them and writes the manifest."""
    messages = [run_task(7, 0, [1, 2]), run_task(7, 1, [3])]
    assert written.names() == []
    finish(7, *messages)
    assert numbers(written) == [1, 2, 3]
    folder = "out/batch=000000000007"
    assert written.names() == [
        "out/_ehkafka.json",
        f"{folder}/_manifest.json",
        f"{folder}/part-00000.jsonl",
        f"{folder}/part-00001.jsonl",
    ]
    assert written.manifests()[7] == {
        "version": 1,
        "batch": 7,
        "query": QUERY,
        "rows": 3,
        "blobs": [
            {"name": f"{folder}/part-00000.jsonl", "rows": 2, "bytes": 16},
            {"name": f"{folder}/part-00001.jsonl", "rows": 1, "bytes": 8},
        ],
    }


def test_of_two_attempts_one_counts(run_task: Any, finish: Any, written: Any) -> None:
    """A speculative attempt stages the same rows into the same blob; they are there once."""
    first, second = run_task(0, 0, [1, 2]), run_task(0, 0, [1, 2])
    assert first.blob == second.blob
    finish(0, second)
    assert numbers(written) == [1, 2]


def test_a_complete_batch_is_left_alone(run_task: Any, finish: Any, written: Any) -> None:
    """The driver died before Spark noted the commit: the replay changes nothing, whatever it staged."""
    finish(0, run_task(0, 0, [1]), run_task(0, 1, [2]))
    before = {name: written.content(name) for name in written.names()}
    finish(0, run_task(0, 0, [1, 2]))
    assert {name: written.content(name) for name in written.names()} == before


def test_a_commit_that_broke_off_is_done_again(run_task: Any, finish: Any, written: Any) -> None:
    """The driver died amid its commit; the replay has fewer tasks, and no row is there twice."""
    finish(0, run_task(0, 0, [1]), run_task(0, 1, [2]), run_task(0, 2, [3]))
    written.delete("out/batch=000000000000/_manifest.json")
    finish(0, run_task(0, 0, [1, 2]), run_task(0, 1, [3]))
    assert numbers(written) == [1, 2, 3]
    assert len(written.manifests()[0]["blobs"]) == 2


def test_the_blocks_of_a_dead_driver_are_never_committed(run_task: Any, finish: Any, written: Any) -> None:
    """Staged and then lost: the replay's rows are all there is."""
    run_task(0, 0, [8, 9])
    finish(0, run_task(0, 0, [1]))
    assert numbers(written) == [1]


def test_a_driver_that_is_too_late_is_stopped(run_task: Any, finish: Any, written: Any) -> None:
    """A frozen driver wakes up after another one has committed the blob: its own blocks are gone."""
    late = run_task(0, 0, [1])
    finish(0, run_task(0, 0, [1]))
    written.delete("out/batch=000000000000/_manifest.json")
    with pytest.raises(StoreConflictError, match="Another driver of this query"):
        finish(0, late)
    assert numbers(written) == [1]


def test_tasks_without_rows_make_no_blobs(run_task: Any, finish: Any, written: Any) -> None:
    """An empty task is in no manifest; a batch of them has an empty manifest; one without tasks has none."""
    finish(0, run_task(0, 0, []), run_task(0, 1, [1]), None)
    finish(1, run_task(1, 0, []))
    finish(2)
    assert [len(written.manifests()[batch]["blobs"]) for batch in (0, 1)] == [1, 0]
    assert numbers(written) == [1]
    assert not any("000000000002" in name for name in written.names())


def test_a_path_belongs_to_one_query(run_task: Any, finish: Any, written: Any) -> None:
    """A new checkpoint begins at batch 0 again: its batches would be taken for written."""
    finish(0, run_task(0, 0, [1]))
    with pytest.raises(ConfigurationError, match=r"belongs to the streaming query 6f0b.*checkpointLocation"):
        finish(0, run_task(0, 0, [2], query="another"))
    assert numbers(written) == [1]


def test_a_batch_that_the_driver_counts_otherwise_is_refused(
    run_task: Any, finish: Any, written: Any
) -> None:
    """Should Spark ever tell tasks another number than the driver, nothing is written under either."""
    with pytest.raises(EngineError, match="batch 4"):
        finish(4, run_task(3, 0, [1]))
    assert written.names() == []


def test_a_spark_that_tells_no_batch_is_refused(monkeypatch: pytest.MonkeyPatch, written: Any) -> None:
    """The local property is undocumented: its absence is one clear error."""
    monkeypatch.setattr(TaskContext, "get", lambda: FakeTask(0, {}))
    with pytest.raises(ConfigurationError, match=r"streaming\.sql\.batchId"):
        stage(sink_options({**written.options, "path": "out"}), iter([]))


def test_times_with_a_zone_are_written_in_utc(
    monkeypatch: pytest.MonkeyPatch, finish: Any, written: Any
) -> None:
    """What zone a session shows times in is not for a file that others read."""
    task = FakeTask(0, {"streaming.sql.batchId": "0", "sql.streaming.queryId": QUERY})
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    batch = pa.record_batch({"at": pa.array([noon], pa.timestamp("us", "Asia/Tokyo"))})
    finish(0, stage(sink_options({**written.options, "path": "out"}), iter([batch])))
    assert [row["at"] for row in written.rows()] == ["2026-01-02T12:00:00Z"]


def test_a_missing_container_is_one_error(run_task: Any, written: Any) -> None:
    """It says what to create; the sink never creates a container."""
    missing = sink_options({**written.options, "container": "not-there", "path": "out"})
    with pytest.raises(StoreMissingError, match=r"not-there.*Create the container"):
        opened(missing.place).stage("a", "b", b"c")


def test_a_rotated_key_is_read_again(written: Any, azurite: Any, tmp_path: Path) -> None:
    """The attempt after a refused one has the new key, in the same process."""
    secret = tmp_path / "rotated"
    secret.write_text(azurite.connection_string().replace("Eby8", "Xby8"))
    options = sink_options({**written.options, "connectionStringFile": str(secret), "path": "out"})
    with pytest.raises(StoreForbiddenError, match="Storage Blob Data Contributor") as refused:
        opened(options.place).read("out/x")
    assert "Xby8" not in repr(refused.value)
    assert refused.value.__context__ is None
    secret.write_text(azurite.connection_string())
    assert opened(options.place).read("out/x") is None


def test_a_process_has_one_client_for_a_place(written: Any) -> None:
    """A worker runs many tasks; each connection costs a handshake."""
    options = sink_options({**written.options, "path": "out"})
    other = sink_options({**written.options, "path": "elsewhere"})
    assert opened(options.place) is opened(other.place)
    assert isinstance(opened(options.place), SinkContainer)


def test_the_writer_is_pickled_without_a_secret(written: Any, azurite: Any) -> None:
    """What goes to the executors has names of secrets alone."""
    source = BlobDataSource({**written.options, "path": "out"})
    from pyspark.sql.types import LongType, StructField, StructType  # noqa: PLC0415

    writer = source.streamWriter(StructType([StructField("n", LongType())]), overwrite=False)
    from tests.kit.azurite import ACCOUNT_KEY  # noqa: PLC0415

    assert ACCOUNT_KEY.encode() not in pickle.dumps(writer)
    assert ACCOUNT_KEY.encode() not in pickle.dumps(source)


def test_what_cannot_be_written_is_refused_at_the_start() -> None:
    """Complete mode, batch queries, reading, a type without a form."""
    from pyspark.sql.types import LongType, StructField, StructType, VariantType  # noqa: PLC0415

    source = BlobDataSource({"containerurl": "https://shop.blob.core.windows.net/homes", "path": "out"})
    good = StructType([StructField("n", LongType())])
    with pytest.raises(ConfigurationError, match="output mode complete"):
        source.streamWriter(good, overwrite=True)
    with pytest.raises(ConfigurationError, match="availableNow"):
        source.writer(good, overwrite=False)
    with pytest.raises(ConfigurationError, match=r"spark\.read\.json"):
        source.schema()
    with pytest.raises(ConfigurationError, match="'v' is of type variant"):
        source.streamWriter(StructType([StructField("v", VariantType())]), overwrite=False)
