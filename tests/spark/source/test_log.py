"""The way of a query's planning process to its broker."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checks.inspection import Inspection
from ehkafka.checks.reach import reach_topic
from ehkafka.errors import ConfigurationError, EndpointError, OffsetGapError, TopicNotFoundError
from ehkafka.ranges import log as module
from ehkafka.ranges.log import Log
from ehkafka.ranges.places import Piece
from ehkafka.records import TopicPartition
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.options import options_from
from ehkafka.spark.source.stream import Stream
from tests.spark.source.conftest import batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.testing import EmbeddedBroker


def test_a_refused_connection_ends_the_start_before_its_time_is_over(
    options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what librdkafka says of it."""
    monkeypatch.setattr(module, "REFUSED_S", 0.1)
    monkeypatch.setattr(module, "TIMEOUT_S", 2.0)
    monkeypatch.setattr(Inspection, "is_over", False)
    with (
        Log(options(**{"kafka.bootstrap.servers": "127.0.0.1:1"})) as log,
        pytest.raises(EndpointError, match="Connection refused"),
    ):
        log.partitions()


def test_a_broker_that_restarts_may_refuse_for_longer(
    options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the run's first opening is in a hurry: a running query waits for the broker."""
    waits_s = []

    def noted(*given: Any, refused_s: float) -> object:
        waits_s.append(refused_s)
        return reach_topic(*given, refused_s=refused_s)

    monkeypatch.setattr(module, "reach_topic", noted)
    with Log(options()) as log:
        log.partitions()
        log.close()
        log.partitions_now()
    assert waits_s == [module.REFUSED_S, inf]


@pytest.fixture
def homes(broker: EmbeddedBroker) -> SourceOptions:
    """Return the options of a query of all topics of homes; there are two."""
    for topic in ("home-1", "home-2", "my-home-1"):
        broker.create_topic(topic, 1)
        broker.produce(topic, [(b"k", b"v")] * 3)
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribePattern": "home-.*"}
    return options_from({**given, "startingOffsets": "earliest"})


def test_topics_of_a_pattern_come_and_go(
    broker: EmbeddedBroker, homes: SourceOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It matches whole names. A topic that comes is read from its beginning, one that goes is a loss."""
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    monkeypatch.setattr(module, "MISSING_S", 0.0)
    with Log(homes) as log:
        stream = Stream(homes, log)
        end, pieces = batch(stream, stream.initial())
        assert pieces == [Piece("home-1", 0, 0, 3), Piece("home-2", 0, 0, 3)]
        broker.create_topic("home-3", 1)
        broker.produce("home-3", [(b"k", b"v")] * 2)
        end, pieces = batch(stream, end)
        assert pieces == [Piece("home-3", 0, 0, 2)]
        assert log.topics() == ("home-1", "home-2", "home-3")
        broker.delete_topic("home-1")
        with pytest.raises(OffsetGapError, match=r"knows home-1\[0\], no longer read"):
            stream.latest(end, None)


def test_a_checkpoint_of_topics_that_the_pattern_does_not_match_is_refused(homes: SourceOptions) -> None:
    """One that names a topic it matches is not: what is gone, or no longer matched, is a loss."""
    with Log(homes) as log:
        of_others = StreamOffset({TopicPartition("my-home-1", 0): 1}).to_json()
        with pytest.raises(
            ConfigurationError, match=r"belongs to topic my-home-1, but the query reads home-1, home-2"
        ):
            Stream(homes, log).latest(of_others, None)
        gone = StreamOffset(dict.fromkeys([TopicPartition("home-9", 0), TopicPartition("barn", 0)], 1))
        with pytest.raises(OffsetGapError, match=r"knows barn\[0\], home-9\[0\]"):
            Stream(homes, log).latest(gone.to_json(), None)


def test_a_pattern_that_matches_nothing_is_reported_with_what_is_there(homes: SourceOptions) -> None:
    """At the start."""
    with (
        Log(replace(homes, pattern="home")) as log,
        pytest.raises(
            TopicNotFoundError, match=r"home matches no .*on the broker: home-1, home-2, my-home-1"
        ),
    ):
        log.partitions()


def test_a_partition_that_one_broker_does_not_know_yet_is_awaited(
    homes: SourceOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic that a pattern matches, too."""
    first, second = (TopicPartition("home-1", number) for number in range(2))
    answers = [(first,), (first, second)]
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    with Log(homes) as log:
        monkeypatch.setattr(log, "_found", lambda: answers.pop(0))
        assert log.partitions_now({first, second}) == (first, second)
