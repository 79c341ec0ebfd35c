"""Producing and reading commits fail loudly, on any broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ehkafka.embedded.topics import commits, committed, produce
from ehkafka.errors import EndpointError, TopicNotFoundError
from ehkafka.testing import ApiKey
from ehkafka.testing.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ehkafka.testing import EmbeddedBroker


def test_more_records_than_the_client_queues_are_all_produced(
    broker: EmbeddedBroker, consumer: Callable[..., AbstractContextManager[Consumer]]
) -> None:
    """A full queue is waited for, not lost and not raised."""
    records = ((str(number), b"x") for number in range(2_000))
    full_early = {"queue.buffering.max.messages": 100}
    assert produce(broker.bootstrap, "orders", records, partition=1, properties=full_early) == 2_000
    with consumer(broker) as opened:
        assert opened.get_watermark_offsets(TopicPartition("orders", 1), timeout=10) == (0, 2_000)


def test_a_partition_that_does_not_exist_is_an_error(broker: EmbeddedBroker) -> None:
    """The message names how many records and which topic."""
    with pytest.raises(EndpointError, match="_UNKNOWN_PARTITION"):
        produce(broker.bootstrap, "orders", [("a", b"1")], partition=4)


def test_commits_of_a_missing_topic_are_an_error(broker: EmbeddedBroker) -> None:
    """A wrong name is no topic without commits."""
    with pytest.raises(TopicNotFoundError, match="Topic order "):
        committed(broker.bootstrap, "g", "order")


def test_commit_metadata_is_readable(
    broker: EmbeddedBroker, consumer: Callable[..., AbstractContextManager[Consumer]]
) -> None:
    """`commits` shows the metadata stored with the offset."""
    with consumer(broker) as opened:
        opened.commit(offsets=[TopicPartition("orders", 2, 7, "ranges")], asynchronous=False)
    found = {one.partition: (one.offset, one.metadata) for one in commits(broker.bootstrap, "g", "orders")}
    assert found[2] == (7, "ranges")
    assert committed(broker.bootstrap, "g", "orders") == {0: None, 1: None, 2: 7, 3: None}


def test_a_coordinator_that_has_just_moved_is_asked_again(broker: EmbeddedBroker) -> None:
    """Right after a broker's start the group's coordinator may not be known to itself yet."""
    broker.fail_next(ApiKey.OFFSET_FETCH, *[KafkaError.NOT_COORDINATOR] * 8)
    assert committed(broker.bootstrap, "g", "orders") == dict.fromkeys(range(4))


def test_a_coordinator_that_never_comes_is_an_error_within_the_time_limit(broker: EmbeddedBroker) -> None:
    """Asking again ends when the time is up, and says what was heard."""
    broker.fail_next(ApiKey.OFFSET_FETCH, *[KafkaError.NOT_COORDINATOR] * 200)
    with pytest.raises(EndpointError, match=r"NOT_COORDINATOR|_TIMED_OUT"):
        committed(broker.bootstrap, "g", "orders", timeout_s=0.5)


def test_a_groups_move_waits_for_a_coordinator_that_is_loading(broker: EmbeddedBroker) -> None:
    """As a client's commit does: a broker that has just started answers so. Any other refusal is raised."""

    class Admin(KafkaAdmin):
        bootstrap = broker.bootstrap

    broker.fail_next(
        ApiKey.OFFSET_COMMIT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR
    )
    Admin().set_committed("g", {("orders", 0): 1})
    assert committed(broker.bootstrap, "g", "orders") == {0: 1, 1: None, 2: None, 3: None}
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.INVALID_COMMIT_OFFSET_SIZE)
    with pytest.raises(KafkaException, match="INVALID_COMMIT_OFFSET_SIZE"):
        Admin().set_committed("g", {("orders", 0): 2})
