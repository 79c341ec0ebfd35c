"""The source on a real broker: what the embedded one does not have."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from ehkafka.embedded.topics import produce
from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.ranges import begin
from ehkafka.ranges.log import Log
from ehkafka.ranges.places import AtTime, pieces_between
from ehkafka.records import TopicPartition
from ehkafka.spark.source.consumers import messages
from ehkafka.spark.source.options import options_from
from tests.kit.brokers import KEY, connection_string, server_identity
from tests.kit.identity_endpoint import IdentityEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.testing.kafka.broker import KafkaBroker

pytest.importorskip("pyspark")
from tests.spark.kept import close_idle

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

STRING = connection_string()


@pytest.fixture
def topic(kafka: KafkaBroker) -> Iterator[Callable[..., str]]:
    """Return what makes a topic of the test's own."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"readings-{uuid.uuid4().hex[:8]}"
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        kafka.create_topic(name, partitions, {"retention.ms": "-1", **dotted})
        return name

    yield make
    close_idle()


def _options(broker: KafkaBroker, topic: str, **given: str) -> SourceOptions:
    return options_from({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **given})


def _read_all(options: SourceOptions) -> list[Message]:
    with Log(options) as log:
        partitions = log.partitions()
        pieces = pieces_between(log.starts(partitions), log.ends(partitions))
    return [record for _, records in messages(options, pieces) for record in records]


def test_a_log_that_ends_in_control_records_is_read_to_its_end(
    kafka: KafkaBroker, topic: Callable[..., str]
) -> None:
    """Offsets without records (ends of transactions, aborted records) end a piece at once, not by time."""
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions()
    for is_kept in (True, False, True, False):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(name, b"%d" % number, b"kept" if is_kept else b"aborted")
        producer.flush(10)
        producer.commit_transaction(10) if is_kept else producer.abort_transaction(10)
    options = _options(kafka, name, **{"kafkaConsumer.pollTimeoutMs": "60000"})
    records = _read_all(options)
    assert [record.key() for record in records] == [b"kept"] * 10
    assert [record.offset() for record in records] == [*range(5), *range(12, 17)]
    with Log(options) as log:
        assert log.ends(log.partitions()) == {TopicPartition(name, 0): 24}


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_moment_is_a_start(kafka: KafkaBroker, topic: Callable[..., str], kind: str) -> None:
    """`startingTimestamp` finds the first record of a moment or later, with both kinds of timestamps."""
    name = topic(message_timestamp_type=kind)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce(name, b"v", timestamp=1_000_000 + number, partition=0)
    producer.flush(10)
    options = _options(kafka, name)
    records = _read_all(options)
    kinds = {record.timestamp()[0] for record in records}
    assert kinds == {1 if kind == "CreateTime" else 2}
    moment = records[4].timestamp()[1]
    first = next(record.offset() for record in records if record.timestamp()[1] >= moment)
    with Log(options) as log:
        partitions = log.partitions()
        assert begin.offsets_of(AtTime(moment), log, partitions) == {partitions[0]: first}
        late = records[-1].timestamp()[1] + 3_600_000
        with pytest.raises(ConfigurationError, match="has no record at or after"):
            begin.offsets_of(AtTime(late), log, partitions)
        assert begin.offsets_of(AtTime(late, after_last="latest"), log, partitions) == {partitions[0]: 10}


def test_a_rotated_key_is_taken_up(kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path) -> None:
    """A key in a file may change between two tasks: a kept consumer of the old key is not used again."""
    name = topic(1)
    produce(kafka.bootstrap, name, [("k", b"v")] * 6)
    options = options_from(_through_the_service(kafka, tmp_path, name, STRING))
    assert len(_read_all(options)) == 6
    (tmp_path / "string").write_text(STRING.replace(KEY, "d3Jvbmc="))
    with pytest.raises(EhkafkaError, match="AUTHENTICATION"):
        _read_all(
            options_from(
                {**_through_the_service(kafka, tmp_path, name), "kafkaConsumer.pollTimeoutMs": "2000"}
            )
        )
    (tmp_path / "string").write_text(STRING)
    assert len(_read_all(options)) == 6


def _through_the_service(
    broker: KafkaBroker, directory: Path, topic: str, string: str | None = None
) -> dict[str, str]:
    """Return options with a connection string in a file."""
    if string is not None:
        (directory / "string").write_text(string)
    (directory / "ca.pem").write_bytes(server_identity().ca_pem)
    return {
        "connectionStringFile": str(directory / "string"),
        "kafka.bootstrap.servers": broker.bootstrap_for("event_hubs"),
        "kafka.ssl.ca.location": str(directory / "ca.pem"),
        "subscribe": topic,
    }


# A process that runs a task says so: a token is asked for on the driver, too.
FACTORY = """
import os
from pathlib import Path
from azure.identity import ManagedIdentityCredential
from pyspark import TaskContext

def make():
    os.environ.update({environment!r})
    if TaskContext.get() is not None:
        Path({in_task!r}).touch()
    return ManagedIdentityCredential()
"""


@pytest.mark.parametrize("way", ["connectionStringFile", "credentialFactory"])
def test_no_secret_is_in_plans_checkpoints_and_logs(
    way: str,
    kafka: KafkaBroker,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A connection string and a managed identity open the broker in executors; nothing shows either."""
    name = topic(2)
    produce(kafka.bootstrap, name, [(f"k{number}", b"v") for number in range(40)])
    given = _through_the_service(kafka, tmp_path, name, STRING)
    with IdentityEndpoint(3600.0) as identity:
        if way == "credentialFactory":
            module = f"home_credential_{uuid.uuid4().hex[:8]}"
            code = FACTORY.format(environment=identity.environment(), in_task=str(tmp_path / "in-task"))
            (tmp_path / f"{module}.py").write_text(code)
            spark.sparkContext.addPyFile(str(tmp_path / f"{module}.py"))
            del given["connectionStringFile"]
            given |= {"namespace": "home", "credentialFactory": f"{module}:make"}
            given["kafka.bootstrap.servers"] = kafka.bootstrap_for("entra")
        seen: list[Any] = []
        frame = spark.readStream.format("ehkafka").options(**given, startingOffsets="earliest").load()

        def keep(batch: DataFrame, _batch_id: int) -> None:
            seen.extend(batch.select("key").collect())

        writer = frame.writeStream.foreachBatch(keep).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(200), "the query did not end"
        frame.explain(True)
        query.explain(True)
        secrets = [KEY, *identity.issued]
        if way == "credentialFactory":
            assert len(identity.issued) > 1
            assert (tmp_path / "in-task").exists()
    assert len(seen) == 40
    shown = capsys.readouterr().out + str(query.lastProgress)
    files = [*_files(tmp_path / "checkpoint"), *_files_of_events(spark)]
    assert any(b"ehkafka" in content for content in files)
    for secret in secrets:
        assert secret not in shown, "FACT: a secret is shown"
        assert not any(secret.encode() in content for content in files), "FACT: a secret is in a file"


def _files(directory: Path) -> list[bytes]:
    return [file.read_bytes() for file in directory.rglob("*") if file.is_file()]


def _files_of_events(spark: SparkSession) -> list[bytes]:
    return _files(Path(spark.conf.get("spark.eventLog.dir").removeprefix("file://")))
