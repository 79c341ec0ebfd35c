"""What `format("ehkafka")` tells on a real session where it cannot go on: our own words, as soon as can be.

The words of most refusals are compared in the tests next to this one; here is what Spark makes of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
from pyspark.errors import AnalysisException, StreamingQueryException

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ehkafka.testing import EmbeddedBroker
    from tests.spark.source.conftest import Queries

pytestmark = pytest.mark.timeout(600)
KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="


@pytest.mark.parametrize("kind", ["readStream", "read"])
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"startingOfsets": "latest"}, r"no option 'startingofsets'; did you mean startingOffsets\?"),
        ({"connectionString": f"Endpoint=sb://x/;SharedAccessKey={KEY}"}, "connectionStringEnv"),
    ],
)
def test_wrong_options_are_refused_by_load(
    spark: SparkSession, kind: str, given: dict[str, str], shown: str
) -> None:
    """Unknown, conflicting and secret ones: what needs no broker is reported before there is a query."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "readings", **given}
    with pytest.raises(AnalysisException, match=rf"ConfigurationError: .*{shown}") as refused:
        getattr(spark, kind).format("ehkafka").options(**options).load()
    assert KEY not in str(refused.value)
    _assert_no_traceback(refused.value)


def _assert_no_traceback(reported: Exception) -> None:
    """Our sentence, and one line behind it with Spark's own number for the kind of error."""
    shown = str(reported).partition("=== Streaming Query ===")[0]
    assert len(shown.splitlines()) <= 2, shown


def _last_error(reported: Exception) -> str:
    """Return the sentence in which Spark's words end, but for what it says of the query."""
    errors = [line for line in str(reported).splitlines() if "Error: " in line]
    return errors[-1].partition("Error: ")[2]


@pytest.mark.parametrize(
    ("given", "schema", "shown"),
    [
        (
            {"endingOffsets": "latest"},
            "",
            "Options ending… work only with spark.read, because a stream has no end.",
        ),
        ({}, "a INT", "The source's columns are key, value"),
        ({"topic": "readings"}, "a INT", "There is no option 'topic'; name the topics to read"),
    ],
)
def test_our_words_are_the_last_ones(
    spark: SparkSession,
    broker: EmbeddedBroker,
    tmp_path: Path,
    given: dict[str, str],
    schema: str,
    shown: str,
) -> None:
    """PySpark follows up an error of `streamReader` with one of its own, about a variable `reader`."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings", **given}
    frame = spark.readStream.format("ehkafka").options(**options)
    writer = (frame.schema(schema) if schema else frame).load().writeStream.format("noop")
    with pytest.raises(StreamingQueryException) as ended:
        writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(200)
    assert _last_error(ended.value).startswith(shown)
    _assert_no_traceback(ended.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"subscribe": "raedings"}, r"Did you mean 'readings'\?"),
        ({"startingOffsets": '{"readings": {"0": 0}}'}, r"do not name readings\[1\]"),
    ],
)
def test_what_the_broker_does_not_have_ends_the_query_before_its_first_batch(
    queries: Queries, given: dict[str, str], shown: str
) -> None:
    """A missing topic, offsets without a partition: one error that names it."""
    queries.produce(1, 1)
    with pytest.raises(StreamingQueryException, match=shown):
        queries.start(**{"startingOffsets": "earliest", **given})
    assert list(queries.checkpoint.glob("offsets/*")) == []


def test_a_topic_that_is_deleted_under_a_query_is_named(queries: Queries, broker: EmbeddedBroker) -> None:
    """No endless wait, and no word of partitions without a leader."""
    queries.produce(1, 1)
    _, query = queries.start(now=False, startingOffsets="earliest", **{"kafkaConsumer.pollTimeoutMs": "3000"})
    broker.delete_topic("readings")
    with pytest.raises(
        StreamingQueryException, match=r"TopicNotFoundError: .*topic readings: the broker has no such topic"
    ) as ended:
        query.processAllAvailable()
    _assert_no_traceback(ended.value)
