"""Faults of the embedded broker hit the requests they name, and no others."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import ConfigurationError
from ehkafka.testing import ApiKey, EmbeddedBroker, EmbeddedBrokerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from confluent_kafka import Consumer

    Opener = Callable[..., AbstractContextManager[Consumer]]
    Committer = Callable[..., float]

LIMIT_S = 10.0


def test_injected_errors_hit_as_many_requests_as_given_in_order(
    broker: EmbeddedBroker, consumer: Opener, commit: Committer
) -> None:
    """The first commit fails with the first code, the second passes, the third fails, the fourth passes."""
    broker.fail_next(
        ApiKey.OFFSET_COMMIT, KafkaError.INVALID_COMMIT_OFFSET_SIZE, 0, KafkaError.GROUP_AUTHORIZATION_FAILED
    )
    with consumer(broker) as opened:
        with pytest.raises(KafkaException) as first:
            commit(opened, 1)
        commit(opened, 2)
        with pytest.raises(KafkaException) as third:
            commit(opened, 3)
        commit(opened, 4)
    assert first.value.args[0].code() == KafkaError.INVALID_COMMIT_OFFSET_SIZE
    assert third.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert broker.committed("g", "orders")[0] == 4


def test_one_request_type_can_be_slow(broker: EmbeddedBroker, consumer: Opener, commit: Committer) -> None:
    """A delayed commit takes its time and succeeds; the next one is fast."""
    broker.delay_next(ApiKey.OFFSET_COMMIT, 0.4)
    with consumer(broker) as opened:
        broker.committed("g", "orders")
        assert 0.4 <= commit(opened, 1) < 2.0
        assert commit(opened, 2) < 0.4


def test_errors_still_hit_after_a_delay_was_queued(
    broker: EmbeddedBroker, consumer: Opener, commit: Committer
) -> None:
    """A broker's own queue does not hide errors given for the whole cluster."""
    broker.delay_next(ApiKey.OFFSET_COMMIT, 0.01)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.INVALID_COMMIT_OFFSET_SIZE)
    with consumer(broker) as opened:
        commit(opened, 1)
        with pytest.raises(KafkaException):
            commit(opened, 2)


def test_answers_that_cannot_be_withdrawn_are_named(broker: EmbeddedBroker) -> None:
    """`clear_failures` raises when a broker's own queue keeps answers back."""
    broker.delay_next(ApiKey.OFFSET_COMMIT, 0.01, times=3)
    with pytest.raises(EmbeddedBrokerError, match=r"3 answer\(s\) to OFFSET_COMMIT"):
        broker.clear_failures(ApiKey.OFFSET_COMMIT)


def test_errors_hidden_by_one_brokers_queue_are_refused() -> None:
    """With several brokers, an error that some would ignore is refused at once."""
    with EmbeddedBroker(brokers=2) as broker:
        broker.delay_next(ApiKey.FETCH, 0.01, broker_id=2)
        with pytest.raises(ConfigurationError, match="broker_id="):
            broker.fail_next(ApiKey.FETCH, KafkaError.OFFSET_OUT_OF_RANGE)


def test_requests_that_were_never_tracked_are_no_empty_list(broker: EmbeddedBroker) -> None:
    """A test that forgot to track cannot pass by counting nothing."""
    with pytest.raises(EmbeddedBrokerError, match="track_requests"):
        broker.requests()


def test_leaders_and_coordinators_move(consumer: Opener, commit: Committer) -> None:
    """Metadata names the new leader; commits go to the new coordinator."""
    with EmbeddedBroker({"orders": 1}, brokers=3) as broker:
        broker.move_leader("orders", 0, 3)
        broker.set_coordinator("g", 2)
        broker.track_requests()
        with consumer(broker) as opened:
            assert opened.list_topics(timeout=LIMIT_S).topics["orders"].partitions[0].leader == 3
            commit(opened, 1)
            broker.move_leader("orders", 0, None)
            assert opened.list_topics(timeout=LIMIT_S).topics["orders"].partitions[0].leader == -1
        assert [one.broker_id for one in broker.requests(ApiKey.OFFSET_COMMIT)] == [2]


LEADERLESS = """
import time
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from ehkafka.testing import EmbeddedBroker
with EmbeddedBroker({"orders": 2}) as broker:
    broker.produce("orders", [("a", b"1")], partition=1)
    group = {"group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**broker.consumer_properties, **group})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0})
    producer.list_topics("orders")
    consumer.subscribe(["orders"])
    while consumer.poll(0.05) is None:
        pass
    broker.move_leader("orders", 1, None)
    producer.produce("orders", b"2", partition=1)
    ended_s = time.monotonic() + 0.6
    while time.monotonic() < ended_s:
        consumer.poll(0.05)
    try:
        consumer.get_watermark_offsets(TopicPartition("orders", 1), timeout=0.3)
    except KafkaException:
        pass
    broker.move_leader("orders", 1, 1)
    assert producer.flush(10) == 0
    while (message := consumer.poll(10)).value() != b"2":
        pass
    print("read")
"""


def test_clients_of_a_partition_without_a_leader_wait_for_one() -> None:
    """It may be read, written and asked about; librdkafka's mock cluster would end the process."""
    command = [sys.executable, "-c", LEADERLESS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr


def test_another_address_can_be_advertised(broker: EmbeddedBroker, consumer: Opener) -> None:
    """Clients learn the proxy's address from metadata."""
    broker.advertise("localhost", 9)
    with consumer(broker, error_cb=lambda _: None) as opened:
        found = opened.list_topics(timeout=LIMIT_S).brokers[1]
    assert (found.host, found.port) == ("localhost", 9)
