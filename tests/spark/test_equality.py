"""Our source and Spark's own Kafka connector read the same frame out of the same topics."""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ehkafka.embedded.topics import produce
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

PLAIN, APPENDED, COMPACTED, KEYS, TRANSACTIONS = 60_000, 36_000, 8_000, 500, 40
# Of the first, the last millisecond of a second, far before 1 January 2000, and what is usual.
TIMES_MS = (1, 999, 86_400_000, 1_600_000_000_123, 1_700_000_000_000)
KEYS_AND_VALUES = (None, b"", b"\x00", b"\xff\xfe", "schlüssel".encode(), b"a" * 300)
HEADERS = (
    None,
    [],
    [("a", b"1")],
    [("a", b"1"), ("a", b"2"), ("a", b"1")],
    [("", b""), ("n", None), ("ü", b"\x00\xff")],
    [(f"h{number}", b"%d" % number) for number in range(12)],
)
ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


@pytest.fixture(scope="module")
def quick_cleaner(kafka: KafkaBroker) -> Iterator[None]:
    """Let the broker look for logs to compact all the time instead of every 15 seconds."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})

    def change(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(15)

    change(AlterConfigOpType.SET)
    yield
    change(AlterConfigOpType.DELETE)


@pytest.fixture(scope="module")
def topics(kafka: KafkaBroker, quick_cleaner: None) -> dict[str, str]:
    """Return topics of every kind by what they are: `plain`, `appended`, `compacted`, `transactions`."""
    mark = uuid.uuid4().hex[:8]
    names = {kind: f"{kind}-{mark}" for kind in ("plain", "appended", "compacted", "transactions")}
    kafka.create_topic(names["plain"], 3, {"retention.ms": "-1"})
    kafka.create_topic(names["appended"], 2, {"message.timestamp.type": "LogAppendTime"})
    kafka.create_topic(names["compacted"], 1, COMPACTION)
    kafka.create_topic(names["transactions"], 1, {"retention.ms": "-1"})
    _compactable(kafka, names["compacted"])
    _awkward(kafka, names["plain"], PLAIN)
    _awkward(kafka, names["appended"], APPENDED)
    _transactions(kafka, names["transactions"])
    _wait_until_compacted(kafka, names["compacted"])
    return names


COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",  # of the records' own time
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": str(7 * 86_400_000),
}


def _awkward(kafka: KafkaBroker, topic: str, count: int) -> None:
    """Produce every combination of keys, values, headers and times many times over."""
    dice = random.Random(7)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
    for number in range(count):
        if number % 10_000 == 9_999:
            producer.flush(30)
        producer.produce(
            topic,
            key=dice.choice(KEYS_AND_VALUES),
            value=dice.choice((*KEYS_AND_VALUES, b"%d" % number)),
            headers=dice.choice(HEADERS),
            timestamp=dice.choice(TIMES_MS),
            partition=-1,
        )
    assert producer.flush(30) == 0


def _compactable(kafka: KafkaBroker, topic: str) -> None:
    """Produce many values and some tombstones for few keys, then what begins a new segment."""
    dice = random.Random(8)
    pairs = [
        (b"%d" % dice.randrange(KEYS), b"%d" % number if number % 5 else None) for number in range(COMPACTED)
    ]
    produce(kafka.bootstrap, topic, pairs, timestamp_ms=1_700_000_000_000)
    produce(kafka.bootstrap, topic, [(b"new segment", b"")] * 3, timestamp_ms=1_700_000_100_000)


def _transactions(kafka: KafkaBroker, topic: str) -> None:
    """Produce transactions, every third of them aborted; the log ends in a control record."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for each in range(100):
            producer.produce(topic, b"%d" % each, b"%d" % number)
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)


def _wait_until_compacted(kafka: KafkaBroker, topic: str) -> None:
    """Wait until each key of the closed segment is there once."""
    from ehkafka.spark.source.options import options_from  # noqa: PLC0415 - this function alone
    from ehkafka.spark.source.planning import Piece  # noqa: PLC0415
    from ehkafka.spark.source.reading import messages  # noqa: PLC0415
    from tests.spark.kept import close_idle  # noqa: PLC0415

    options = options_from({"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic})
    whole = [Piece(topic, 0, 0, COMPACTED + 3)]
    wait_until(
        lambda: sum(len(records) for _, records in messages(options, whole)) <= KEYS + 3,
        "the broker compacts the topic",
        timeout_s=300.0,
        meanwhile=lambda: time.sleep(0.2),
    )
    close_idle()


def _table(spark: SparkSession, source: str, kafka: KafkaBroker, subscribe: str, **given: str) -> pa.Table:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": subscribe,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        **given,
    }
    return spark.read.format(source).options(**options).load().toArrow()


def _assert_equal(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.schema.equals(theirs.schema)
    left, right = ours.sort_by(ORDER), theirs.sort_by(ORDER)
    for name in ours.schema.names:
        is_equal = left.column(name).equals(right.column(name))
        assert is_equal, f"FACT: {_first_difference(name, left, right)}"


def _first_difference(name: str, ours: pa.Table, theirs: pa.Table) -> str:
    """Say where a column differs, for the reader of a failure."""
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows, the connector has {theirs.num_rows}"
    pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    return next((f"{name}: {a} is not {b}" for a, b in pairs if a[name] != b[name]), f"{name}: types")


def _offsets(table: pa.Table) -> dict[tuple[Any, Any], list[int]]:
    """Return the offsets of each partition in the order of the rows."""
    found: dict[tuple[Any, Any], list[int]] = {}
    columns = (table.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    for topic, partition, offset in zip(*columns, strict=True):
        found.setdefault((topic, partition), []).append(offset)
    return found


def test_both_sources_read_the_same_frame(
    spark: SparkSession, connector_jars: list[Path], kafka: KafkaBroker, topics: dict[str, str]
) -> None:
    """100 000 awkward rows: nulls, empty bytes, tombstones, headers, both timestamps, holes, transactions.

    Our rows are in their partition's order. The connector's default is to read what was aborted, too.
    """
    if not connector_jars:
        pytest.skip("the connector's JARs are not there")
    subscribe = ",".join(topics.values())
    ours = _table(spark, "ehkafka", kafka, subscribe)
    theirs = _table(spark, "kafka", kafka, subscribe, **{"kafka.isolation.level": "read_committed"})
    _assert_equal(ours, theirs)
    assert ours.num_rows == PLAIN + APPENDED + KEYS + 3 + 100 * (TRANSACTIONS - -(-TRANSACTIONS // 3))
    offsets = _offsets(ours)
    assert len(offsets) == 7
    assert all(each == sorted(each) for each in offsets.values())
    compacted = offsets[topics["compacted"], 0]
    assert compacted[-1] == COMPACTED + 2
    assert set(ours.column("timestampType").to_pylist()) == {0, 1}
    both = _table(spark, "kafka", kafka, topics["transactions"])
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    _assert_equal(_table(spark, "ehkafka", kafka, topics["transactions"], **uncommitted), both)
    assert both.num_rows == 100 * TRANSACTIONS
