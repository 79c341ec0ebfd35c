"""Our source and Spark's own Kafka connector read the same frame out of the same topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.awkward_topics import APPENDED, COMPACTED, KEYS, PLAIN, TRANSACTIONS, awkward_topics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


@pytest.fixture(scope="module")
def topics(kafka: KafkaBroker) -> Iterator[dict[str, str]]:
    """Return topics of every kind by what they are."""
    with awkward_topics(kafka) as names:
        yield names


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
