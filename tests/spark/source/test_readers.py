"""The readers as Spark uses them, as plain objects on an embedded broker: no JVM."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

pytest.importorskip("pyspark")

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.spark.source.data_source import EhkafkaDataSource
from ehkafka.spark.source.early_stream_reader import EarlyStreamReader
from ehkafka.spark.source.readers import SourceBatchReader
from ehkafka.spark.source.stream_reader import SourceStreamReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.testing import EmbeddedBroker

Rows = list[tuple[int, int]]


@pytest.fixture
def reader(options: Callable[..., SourceOptions]) -> Iterator[Callable[..., SourceStreamReader]]:
    """Return what makes a stream's reader; stops them all."""
    made: list[Any] = []

    def make(kind: type[Any] = SourceStreamReader, **given: str) -> Any:
        made.append(kind(options(**{"startingOffsets": "earliest", **given})))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def _rows(reader: Any, tasks: Any) -> Rows:
    """Return (partition, offset) of a batch, read by a reader that went through a pickle."""
    shipped = pickle.loads(pickle.dumps(reader))
    found: Rows = []
    for task in tasks:
        for batch in shipped.read(pickle.loads(pickle.dumps(task))):
            found += zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
    return sorted(found)


def _produce(broker: EmbeddedBroker, *counts: int) -> None:
    for partition, count in enumerate(counts):
        broker.produce("readings", [(b"k", b"v")] * count, partition=partition)


def test_a_reader_gives_spark_what_its_engine_asks(
    broker: EmbeddedBroker, reader: Callable[..., Any]
) -> None:
    """Initial offset, limit, end, tasks, records and progress, in the engine's order."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: PLC0415 - an extra

    _produce(broker, 5, 9)
    one = reader(maxOffsetsPerTrigger="8")
    limit = one.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    start = one.initialOffset()
    end = one.latestOffset(start, limit)
    rows = _rows(one, one.partitions(start, end))
    assert len(rows) == 8
    # A trigger that takes all at once overrides the option.
    last = one.latestOffset(end, ReadAllAvailable())
    everything = [(number, offset) for number, count in enumerate([5, 9]) for offset in range(count)]
    assert sorted(rows + _rows(one, one.partitions(end, last))) == everything
    assert one.reportLatestOffset() == {"readings": {"0": 5, "1": 9}}
    assert one.latestOffset(last, limit) == last
    assert list(one.partitions(last, last)) == []


def test_tasks_share_the_partitions(broker: EmbeddedBroker, reader: Callable[..., Any]) -> None:
    """`tasks` deals several partitions to a task; `splitPartitions` allows cuts."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: PLC0415 - an extra

    _produce(broker, 40_000, 10)

    def sizes(**given: str) -> list[list[tuple[int, int]]]:
        one = reader(**given)
        end = one.latestOffset(one.initialOffset(), ReadAllAvailable())
        tasks = one.partitions(one.initialOffset(), end)
        return [[(piece.partition, piece.size_records) for piece in task.pieces] for task in tasks]

    assert sizes() == [[(0, 40_000)], [(1, 10)]]
    assert sizes(tasks="1") == [[(0, 40_000), (1, 10)]]
    cut = sizes(tasks="2", splitPartitions="true")
    assert len(cut) == 2
    assert sum(size for task in cut for _, size in task) == 40_010


def test_an_idle_query_asks_for_the_ends_alone(broker: EmbeddedBroker, reader: Callable[..., Any]) -> None:
    """Spark asks a hundred times a second while nothing comes: one small request each, no metadata."""
    one = reader()
    end = one.latestOffset(one.initialOffset(), None)
    broker.track_requests()
    for _ in range(20):
        assert one.latestOffset(end, None) == end
    asked = [request.api_key for request in broker.requests()]
    assert asked.count(ApiKey.LIST_OFFSETS) == 20
    assert asked.count(ApiKey.METADATA) <= 1  # librdkafka's own


def test_a_leader_that_moves_is_waited_for(broker: EmbeddedBroker, reader: Callable[..., Any]) -> None:
    """A broker that comes back says for seconds that it leads nothing, or an older epoch."""
    _produce(broker, 5, 3)
    one = reader()
    start = one.initialOffset()
    broker.fail_next(ApiKey.LIST_OFFSETS, *[KafkaError.UNKNOWN_LEADER_EPOCH] * 4)
    assert one.latestOffset(start, None)["readings"] == {"0": 5, "1": 3}


def test_a_leader_that_stays_away_ends_the_query(
    broker: EmbeddedBroker, reader: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is an end to asking, and the error says what was looked for."""
    monkeypatch.setattr("ehkafka.ranges.log.LEADER_S", 0.3)
    one = reader()
    start = one.initialOffset()
    broker.fail_next(ApiKey.LIST_OFFSETS, *[KafkaError.FENCED_LEADER_EPOCH] * 1000)
    with pytest.raises(EndpointError, match=r"FENCED_LEADER_EPOCH .*leader is moving"):
        one.latestOffset(start, None)


def test_sparks_commit_moves_nothing(broker: EmbeddedBroker, reader: Callable[..., Any]) -> None:
    """Trap: `commit()` runs one batch late and never for the last one, so no position depends on it."""
    _produce(broker, 5, 0)
    one = reader(startingOffsets="group", groupId="home")
    end = one.latestOffset(one.initialOffset(), None)
    broker.track_requests()
    one.commit(end)
    one.stop()
    assert ApiKey.OFFSET_COMMIT not in [request.api_key for request in broker.requests()]
    assert broker.committed("home", "readings") == {0: None, 1: None}
    again = reader(startingOffsets="group", groupId="home")
    assert len(_rows(again, again.partitions(again.initialOffset(), end))) == 5


def test_nothing_that_was_opened_or_secret_is_pickled(
    broker: EmbeddedBroker, reader: Callable[..., Any]
) -> None:
    """Trap: the reader is pickled to executors with all that it holds."""
    one = reader()
    one.partitions(one.initialOffset(), one.latestOffset(one.initialOffset(), None))
    copy = pickle.loads(pickle.dumps(one))
    assert copy.options == one.options
    assert vars(copy).keys() == {"options"}
    assert copy._log._inspection is None


def test_a_worker_loads_little_of_the_package() -> None:
    """Spark starts many Python processes: those that read need neither an app nor what asks the broker."""
    code = (
        "import sys, ehkafka.spark.register.pyspark_ehkafka, ehkafka.spark.source.consumers; "
        "print({'ehkafka.app', 'ehkafka.checks', 'ehkafka.ranges.log'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_pyspark_4_0_and_4_1_get_a_limit_of_our_own(
    broker: EmbeddedBroker, reader: Callable[..., Any]
) -> None:
    """`latestOffset()` without arguments: the start is remembered; an empty plan names it at a restart.

    A batch that the limit has cut says where the logs ended; an idle query's offset never changes.
    """
    _produce(broker, 10, 3)
    one = reader(EarlyStreamReader, maxOffsetsPerTrigger="5")
    start, read, ends = one.initialOffset(), [], []
    for _ in range(4):
        end = json.loads(json.dumps(one.latestOffset()))
        read.append(_rows(one, one.partitions(start, end)))
        ends.append(end.get("#ends"))
        start = end
    assert [len(rows) for rows in read] == [5, 5, 3, 0]
    assert ends == [{"readings": {"0": 10, "1": 3}}, {"readings": {"0": 10}}, None, None]
    _produce(broker, 4, 0)
    again = reader(EarlyStreamReader, maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3")
    assert list(again.partitions(start, start)) == []
    end = again.latestOffset()
    assert _rows(again, again.partitions(start, end)) == [(0, 10), (0, 11), (0, 12)]
    _produce(broker, 1, 0)  # it waits for more, and where the log ends now must not become another text
    assert json.dumps(again.latestOffset()) == json.dumps(end)


def test_a_broker_that_is_not_there_is_reported(reader: Callable[..., Any]) -> None:
    """No address, no endless wait."""
    one = reader(**{"kafka.bootstrap.servers": "127.0.0.1:1", "kafkaConsumer.pollTimeoutMs": "1000"})
    with pytest.raises(EndpointError, match="cannot be reached"):
        one.latestOffset(one.initialOffset(), None)


def test_a_batch_reader_needs_no_jvm(broker: EmbeddedBroker, options: Callable[..., SourceOptions]) -> None:
    """Planned once; its tasks read what lies between the two places."""
    _produce(broker, 5, 9)
    one = SourceBatchReader(options(endingOffsets='{"readings": {"0": 2, "1": -1}}'))
    assert _rows(one, one.partitions()) == [(0, 0), (0, 1), *((1, offset) for offset in range(9))]
    empty = SourceBatchReader(options(endingOffsets='{"readings": {"0": 0, "1": 0}}'))
    assert _rows(empty, empty.partitions()) == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingOffsets": "latest"}, "begins at latest reads nothing"),
        (
            {"startingOffsets": '{"readings": {"0": 1}}', "startingOffsetsUnnamed": "latest"},
            "begins at latest reads nothing",
        ),
        ({"minOffsetsPerTrigger": "5"}, "Option minOffsetsPerTrigger works only with spark.readStream"),
        (
            {
                "startingOffsets": '{"readings": {"0": 9, "1": 0}}',
                "endingOffsets": '{"readings": {"0": 3, "1": 4}}',
            },
            "would begin at offset 9 and end at 3",
        ),
        ({"endingOffsets": '{"readings": {"0": 99, "1": 4}}'}, "beyond the end of its log, 20"),
    ],
)
def test_a_batch_that_cannot_be_read_is_refused_before_a_task_runs(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions], given: dict[str, str], text: str
) -> None:
    """One error that names the option."""
    _produce(broker, 20, 30)
    with pytest.raises(ConfigurationError, match=text):
        SourceBatchReader(options(**given)).partitions()


def test_the_source_keeps_no_options_as_given(broker: EmbeddedBroker) -> None:
    """What Spark pickles of the source is what was read of the options, in one place."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings", "columns": "value"}
    source = EhkafkaDataSource(given)
    assert source.options == {}
    assert source.schema() == "`value` BINARY"
    assert pickle.loads(pickle.dumps(source)).source_options == source.source_options
