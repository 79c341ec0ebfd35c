"""Writing to a real broker: what the embedded one does not have."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from ehkafka.spark.writer.options import writer_options
from ehkafka.spark.writer.sending import write_rows
from tests.kit.brokers import KEY, connection_string, server_identity
from tests.kit.identity_endpoint import IdentityEndpoint
from tests.kit.topic_read import read_messages
from tests.spark.kept import close_idle
from tests.spark.writer.frames import frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

pytest.importorskip("pyspark")
from pyspark.errors import AnalysisException

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

STRING = connection_string()
KILLS = 10 if os.environ.get("EHKAFKA_LONG") == "1" else 2
# Tasks, and work, for all of them.
FRAME_PARTITIONS, ROWS = 6 * KILLS, 120_000 * KILLS


@pytest.fixture
def topic(kafka: KafkaBroker) -> Callable[[int], str]:
    """Return what makes a topic of the test's own."""

    def make(partitions: int) -> str:
        name = f"written-{uuid.uuid4().hex[:8]}"
        kafka.create_topic(name, partitions)
        return name

    return make


def write(rows: DataFrame, **options: str) -> None:
    """Write a frame."""
    rows.write.format("ehkafka").mode("append").options(**options).save()


def test_a_key_goes_where_the_jvm_sink_sends_it(
    kafka: KafkaBroker, topic: Callable[[int], str], spark: SparkSession, connector_jars: list[Path]
) -> None:
    """So replacing `format("kafka")` moves no key: text and bytes, of all lengths."""
    assert connector_jars
    ours, theirs = topic(7), topic(7)
    keys = "IF(id % 2 = 0, CAST(CONCAT('home-', id) AS BINARY), UNHEX(SHA2(CAST(id AS STRING), 256)))"
    rows = spark.range(10_000).selectExpr(
        f"SUBSTR({keys}, 1, CAST(1 + id % 40 AS INT)) AS key", "CAST(id AS STRING) AS value"
    )
    at = {"kafka.bootstrap.servers": kafka.bootstrap}
    write(rows, **at, topic=ours)
    rows.write.format("kafka").options(**at, topic=theirs).save()
    found = [
        {one.value(): (one.key(), one.partition()) for one in read_messages(kafka.bootstrap, name)}
        for name in (ours, theirs)
    ]
    assert len(found[0]) == 10_000
    assert found[0] == found[1]
    assert len({partition for _, partition in found[0].values()}) == 7


def through_the_service(kafka: KafkaBroker, directory: Path, string: str) -> dict[str, str]:
    """Return options with a connection string in a file."""
    (directory / "string").write_text(string)
    (directory / "ca.pem").write_bytes(server_identity().ca_pem)
    return {
        "connectionStringFile": str(directory / "string"),
        "kafka.bootstrap.servers": kafka.bootstrap_for("event_hubs"),
        "kafka.ssl.ca.location": str(directory / "ca.pem"),
    }


ENTRA = """
import os
from azure.identity import ManagedIdentityCredential

def make():
    os.environ.update({environment!r})
    return ManagedIdentityCredential()
"""


def module_of(code: str, spark: SparkSession, directory: Path) -> str:
    """Ship a module of this code; return its name."""
    name = f"written_{uuid.uuid4().hex[:8]}"
    (directory / f"{name}.py").write_text(code)
    spark.sparkContext.addPyFile(str(directory / f"{name}.py"))
    return name


@pytest.mark.parametrize("way", ["connectionStringFile", "credentialFactory"])
def test_a_connection_string_and_a_managed_identity_may_write(
    way: str, kafka: KafkaBroker, topic: Callable[[int], str], spark: SparkSession, tmp_path: Path
) -> None:
    """Which no JVM sink can without a class in Java."""
    name = topic(2)
    options = through_the_service(kafka, tmp_path, STRING)
    with IdentityEndpoint(3600.0) as identity:
        if way == "credentialFactory":
            module = module_of(ENTRA.format(environment=identity.environment()), spark, tmp_path)
            del options["connectionStringFile"]
            options |= {"namespace": "home", "credentialFactory": f"{module}:make"}
            options["kafka.bootstrap.servers"] = kafka.bootstrap_for("entra")
        write(spark.range(40).selectExpr("CAST(id AS STRING) AS value"), **options, topic=name)
        assert len(identity.issued) > 1 or way == "connectionStringFile"
    assert len(read_messages(kafka.bootstrap, name)) == 40


def test_a_refused_credential_is_one_sentence(
    kafka: KafkaBroker, topic: Callable[[int], str], spark: SparkSession, tmp_path: Path
) -> None:
    """On the driver, before the first task, and without the key."""
    wrong = "d3Jvbmctd3Jvbmctd3Jvbmc="
    options = through_the_service(kafka, tmp_path, STRING.replace(KEY, wrong))
    with pytest.raises(AnalysisException) as refused:
        write(spark.range(1).selectExpr("CAST(id AS STRING) AS value"), **options, topic=topic(1))
    shown = str(refused.value)
    last = [line for line in shown.splitlines() if "Error: " in line][-1]
    assert "EndpointError: " in last
    assert "the broker refuses" in last or "_AUTHENTICATION" in last, last
    assert wrong not in shown


def test_a_throttled_broker_is_waited_for(kafka: KafkaBroker, topic: Callable[[int], str]) -> None:
    """For as long as it writes at all, however much longer than the time-out all of it takes."""
    name, client = topic(1), f"written-{uuid.uuid4().hex[:8]}"
    kafka.set_produce_quota(client, bytes_per_s=200_000)
    own = {"kafka.client.id": client, "kafka.batch.size": "50000", "kafka.linger.ms": "5"}
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": name, "deliveryTimeoutMs": "8000"}
    options = writer_options(given | own)
    values = [b"%06d" % number + b"x" * 994 for number in range(2_000)]
    try:
        result = write_rows(options, iter([frame(value=values)]), partition=0, attempt=0)
    finally:
        close_idle()
    assert result is None
    assert [one.value() for one in read_messages(kafka.bootstrap, name)] == values


KILLED = """
import os, signal, threading
import ehkafka
from pyspark import TaskContext

def make():
    task = TaskContext.get()
    if task is not None:
        # Spark gives a task up at its fourth failure: a late attempt ends before its worker does.
        wait_s = 0.05 * (1 + os.getpid() % 5) if task.attemptNumber() < 2 else 2.0
        for number in range({kills}):
            try:
                os.close(os.open(f"{folder}/kill-{{number}}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            threading.Timer(wait_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
            break
    return ehkafka.Endpoint.kafka({bootstrap!r})
"""

HEADER = "NAMED_STRUCT('key', '{}', 'value', CAST({} AS BINARY))"
# One key for each partition of the frame; every other one names the partition of the topic as well.
OF_ALL_KINDS = [
    "CAST(SPARK_PARTITION_ID() AS STRING) AS key",
    "IF(id % 10 = 3, NULL, CAST(id AS STRING)) AS value",
    "IF(SPARK_PARTITION_ID() % 2 = 0, SPARK_PARTITION_ID() % 4, NULL) AS partition",
    f"ARRAY({HEADER.format('row', 'CAST(id AS STRING)')}, {HEADER.format('nothing', 'NULL')}) AS headers",
]


def test_no_row_is_lost_when_workers_are_killed(
    kafka: KafkaBroker, topic: Callable[[int], str], spark: SparkSession, tmp_path: Path
) -> None:
    """Spark repeats their tasks: rows come again from a task's first one on, and each key's are in order.

    Each is read back as it was in the frame: key, value or tombstone, headers, partition.
    """
    name = topic(4)
    code = KILLED.format(kills=KILLS, folder=str(tmp_path), bootstrap=kafka.bootstrap)
    rows = spark.range(ROWS, numPartitions=FRAME_PARTITIONS).selectExpr(*OF_ALL_KINDS)
    write(rows, endpointFactory=f"{module_of(code, spark, tmp_path)}:make", topic=name)
    assert len(list(tmp_path.glob("kill-*"))) == KILLS
    of_key: dict[bytes, list[int]] = {}
    places: dict[bytes, set[int]] = {}
    for one in read_messages(kafka.bootstrap, name):
        number = int(one.headers()[0][1])
        key, value = b"%d" % (number * FRAME_PARTITIONS // ROWS), b"%d" % number
        assert (one.key(), one.value()) == (key, None if number % 10 == 3 else value)
        assert one.headers() == [("row", value), ("nothing", None)]
        of_key.setdefault(key, []).append(number)
        places.setdefault(key, set()).add(one.partition())
    assert {number for numbers in of_key.values() for number in numbers} == set(range(ROWS))
    named = {key: {int(key) % 4} for key in places if int(key) % 2 == 0}
    assert places | named == places
    assert {len(numbers) for numbers in places.values()} == {1}
    for values in of_key.values():
        assert list(dict.fromkeys(values)) == sorted(set(values))
        assert values[-1] == max(values)
