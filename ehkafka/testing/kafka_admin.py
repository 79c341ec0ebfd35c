"""What a test does to topics and groups: create, delete, truncate, move a group's position.

Every call blocks until the broker shows its effect, so that a test needs no wait of its own. Wraps
`confluent_kafka`'s AdminClient; its errors (`KafkaException`) pass through. One instance per broker,
used from one thread at a time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from ehkafka.errors import EndpointError
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUEST_TIMEOUT_S = 15.0
POLL_S = 0.02
NO_OFFSET = -1001  # librdkafka's OFFSET_INVALID: nothing committed


class KafkaAdmin:
    """Topics and groups of the broker at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self._client = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                # A broker that is just starting or was killed on purpose is no news for the log.
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
            }
        )

    def answers(self, timeout_s: float = 1.0) -> bool:
        """Tell whether the broker answers a metadata request and knows itself as a live member."""
        try:
            return bool(self._client.list_topics(timeout=timeout_s).brokers)
        except confluent_kafka.KafkaException:
            return False  # not yet: the caller polls, and reports the broker's own log at its deadline

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until each of its partitions has a leader."""
        _result(self._client.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))]))
        _until(lambda: self._led_partitions(name) == partitions, f"{name} has no leaders")

    def create_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions and wait for their leaders."""
        _result(self._client.create_partitions([NewPartitions(name, total)]))
        _until(lambda: self._led_partitions(name) == total, f"{name} has no leaders")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker no longer lists it."""
        _result(self._client.delete_topics([name]))
        _until(lambda: self._led_partitions(name) == 0, f"{name} is still listed")

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Delete the records below an offset in each partition: `{("topic", 0): 100}`."""
        _result(self._client.delete_records(_positions(before)))

    def set_committed(self, group: str, next_offsets: Mapping[tuple[str, int], int]) -> None:
        """Move a group without members, as an operator's reset does: `{("topic", 0): 100}`."""
        request = ConsumerGroupTopicPartitions(group, _positions(next_offsets))
        answer = _result(self._client.alter_consumer_group_offsets([request]))
        for position in answer.topic_partitions:
            if position.error is not None:
                raise confluent_kafka.KafkaException(position.error)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return the next_offset that the group has committed, for each partition that has one."""
        answer = _result(self._client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {
            TopicPartition(position.topic, position.partition): position.offset
            for position in answer.topic_partitions
            if position.offset != NO_OFFSET
        }

    def _led_partitions(self, name: str) -> int:
        # The full list, because asking for one missing topic by name is an error, not an answer.
        topic = self._client.list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(name)
        return sum(partition.leader >= 0 for partition in topic.partitions.values()) if topic else 0


def _positions(offsets: Mapping[tuple[str, int], int]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*name, offset) for name, offset in offsets.items()]


def _result(futures: Mapping[Any, Any]) -> Any:
    """Wait for requests of one kind; return the answer to the last, raise the first error."""
    answer = None
    for future in futures.values():
        answer = future.result(REQUEST_TIMEOUT_S)
    return answer


def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise EndpointError(f"{complaint} {REQUEST_TIMEOUT_S:g} s after the broker agreed; see its log")
        time.sleep(POLL_S)
