"""A query's lag is a number that PySpark or the broker reports, or an error: never the sum of nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.records import TopicPartition
from ehkafka.spark import lag
from ehkafka.testing import EmbeddedBroker

DONE = '{"readings": {"0": 3, "1": 0}}'
# What 4.0.5 reports as the end of a batch that the limit has cut, and as `latestOffset` the same.
CUT = (
    "{'#start': {'readings': {'0': 0, '1': 0}}, '#ends': {'readings': {'0': 5}}, "
    "'readings': {'0': 3, '1': 0}}"
)
RATE = {"description": "RateStreamV2", "startOffset": "10", "endOffset": "11", "latestOffset": "11"}


def progress(*sources: dict[str, Any]) -> dict[str, Any]:
    """Return what a query reports, as far as it is looked at."""
    return {"sources": list(sources)}


def ours(end: str | None, **latest: str | None) -> dict[str, Any]:
    """Return a source of ours."""
    return {"description": "PythonMicroBatchStream", "startOffset": "null", "endOffset": end, **latest}


@pytest.mark.parametrize("latest", [{}, {"latestOffset": "null"}], ids=["missing", "null"])
def test_ends_that_are_not_reported_are_asked_of_the_broker(latest: dict[str, Any]) -> None:
    """With the stream's options, as they are now: a partition that was added counts, too."""
    old = progress(ours(DONE, **latest), RATE)
    with pytest.raises(ConfigurationError, match=r"the ends of the logs\. Give the stream's options"):
        lag(old)
    with EmbeddedBroker({"readings": 3, "other": 1}) as broker:
        for partition, count in enumerate((5, 4, 2)):
            broker.produce("readings", [("a", b"x")] * count, partition=partition)
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings,other"}
        assert lag(old, options) == {TopicPartition("readings", n): left for n, left in enumerate((2, 4, 2))}


def test_what_is_reported_is_of_the_moment_when_the_batch_was_planned() -> None:
    """Without options nothing is asked; a source of another kind does not count."""
    reported = progress(ours(DONE, latestOffset='{"readings": {"0": 7, "1": 1}}'), RATE)
    assert lag(reported) == {TopicPartition("readings", 0): 4, TopicPartition("readings", 1): 1}


@pytest.mark.parametrize("end", [CUT, CUT.replace("'", '"')], ids=["4.0.5", "4.1.4"])
def test_before_4_2_the_ends_are_in_the_end_of_the_batch(end: str) -> None:
    """A partition that the limit has not cut has no lag."""
    reported = progress(ours(end, latestOffset=end), RATE)
    assert lag(reported) == {TopicPartition("readings", 0): 2, TopicPartition("readings", 1): 0}


@pytest.mark.parametrize(
    "sources", [(), (RATE,), (ours("null"),), (ours(None),), (ours("None"),), (ours("{'readings"),)], ids=str
)
def test_a_progress_without_a_position_has_no_lag(sources: tuple[dict[str, Any], ...]) -> None:
    """Neither none nor another query's: no source, another kind's, one before its first batch."""
    with pytest.raises(ConfigurationError, match="no Kafka offsets"):
        lag(progress(*sources))


def test_a_broker_that_does_not_answer_is_an_error() -> None:
    """It has no ends."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "readings"}
    options |= {"kafkaConsumer.pollTimeoutMs": "1000"}
    with pytest.raises(EhkafkaError, match=r"127\.0\.0\.1:9"):
        lag(progress(ours(DONE)), options)
