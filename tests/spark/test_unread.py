"""Which columns of the source a query does not use, by plans of a session."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.spark.unread import columns_read, log_unread_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark")
from pyspark.sql import functions as f

ALL = "key value topic partition offset timestamp timestampType headers"


def in_python(batches: Iterator[Any]) -> Iterator[Any]:
    """Never run."""
    return batches


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> DataFrame:
    """Return a stream of all columns; no broker is asked."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "readings", "includeHeaders": "true"}
    return spark.readStream.format("ehkafka").options(**options).load()


@pytest.mark.parametrize(
    ("query", "used"),
    [
        pytest.param(lambda rows: rows, [ALL], id="all go to the sink"),
        pytest.param(lambda rows: rows.select(f.upper("value").alias("key")), ["value"], id="an expression"),
        pytest.param(lambda rows: rows.filter("offset > 5").select("key"), ["key offset"], id="a filter"),
        pytest.param(lambda rows: rows.groupBy().count(), [""], id="none"),
        pytest.param(
            lambda rows: rows.withWatermark("timestamp", "1 minute").groupBy("topic").count(),
            ["topic timestamp"],
            id="a watermark",
        ),
        pytest.param(
            lambda rows: rows.select("key", "value").mapInArrow(in_python, "n long"),
            ["key value"],
            id="Python",
        ),
        pytest.param(
            lambda rows: rows.select("key").union(rows.select("value")),
            ["key value"],
            id="a union",
        ),
    ],
)
def test_the_plan_tells_which_columns_are_used(
    source: DataFrame, query: Callable[[DataFrame], DataFrame], used: list[str]
) -> None:
    """As Spark optimises it: what is selected first and used by nothing later is not used."""
    found = columns_read(query(source))
    assert [" ".join(name for name in is_read if is_read[name]) for is_read in found] == used
    assert {" ".join(is_read) for is_read in found} == {ALL}


def test_another_formats_columns_are_none_of_ours(spark: SparkSession) -> None:
    """Nothing is known of them."""
    assert columns_read(spark.readStream.format("rate").load().select("value")) == []


def test_columns_that_make_reading_a_third_longer_are_logged(
    source: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    """With the option to write; a query that leaves out little is not troubled, nor is an unknown frame."""
    caplog.set_level(logging.INFO, "ehkafka.spark")
    for frame in (source, source.drop("key", "topic"), object()):
        log_unread_columns(SimpleNamespace(_df=frame))
    assert caplog.messages == []
    log_unread_columns(SimpleNamespace(_df=source.select("value", "offset")))
    [line] = caplog.messages
    assert line.endswith(
        " does not use the columns key, topic, partition, timestamp, timestampType, headers. Leave them"
        ' out by .option("columns", "value,offset") and without includeHeaders.'
    )
