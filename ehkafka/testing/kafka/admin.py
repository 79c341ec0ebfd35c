"""What a test does to topics and groups: create, delete, truncate, move a group's position.

Every call blocks until the broker shows its effect, so that a test needs no wait of its own. Wraps
`confluent_kafka`'s AdminClient; its errors (`KafkaException`) pass through. Used from one thread at a
time. Method names and shapes are those of `EmbeddedBroker`, so one test can run on either.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic, TopicPartition

from ehkafka.embedded import topics
from ehkafka.errors import EndpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUEST_TIMEOUT_S = 15.0
POLL_S = 0.02


class KafkaAdmin(ABC):
    """Topics and groups of the broker at `bootstrap`. The client is made at the first use."""

    _admin_client: AdminClient | None = None
    replicas = 1  # of new topics

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """`host:port` of a listener without authentication."""

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until each of its partitions has a leader."""
        topic = NewTopic(name, partitions, self.replicas, config=dict(config or {}))
        _result(self._admin().create_topics([topic]))
        _until(lambda: self._led_partitions(name) == partitions, f"{name} has partitions without a leader")

    def create_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions and wait for their leaders."""
        _result(self._admin().create_partitions([NewPartitions(name, total)]))
        _until(lambda: self._led_partitions(name) == total, f"{name} has partitions without a leader")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker no longer lists it."""
        _result(self._admin().delete_topics([name]))
        _until(lambda: self._led_partitions(name) == 0, f"{name} is still listed")

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Let the partition's log begin at `before_offset`, as retention would."""
        where = TopicPartition(topic, partition, before_offset)
        _result(self._admin().delete_records([where]))

    def set_committed(self, group: str, next_offsets: Mapping[tuple[str, int], int]) -> None:
        """Move a group without members, as an operator's reset does: `{("topic", 0): 100}`."""
        positions = [TopicPartition(*name, offset) for name, offset in next_offsets.items()]
        request = ConsumerGroupTopicPartitions(group, positions)

        def is_moved() -> bool:
            answer = _result(self._admin().alter_consumer_group_offsets([request]))
            refused = [one.error for one in answer.topic_partitions if one.error is not None]
            if any(error.code() not in topics.NOT_YET for error in refused):
                raise KafkaException(refused[0])
            return not refused

        _until(is_moved, f"the coordinator of {group} is not ready")

    def committed(self, group: str, topic: str) -> dict[int, int | None]:
        """Return the group's committed next_offset of each partition, `None` where it has none."""
        # Not by the AdminClient: librdkafka's list_consumer_group_offsets ends the process with SIGSEGV when
        # the coordinator is just starting or moving (confluentinc/librdkafka#5040); a consumer asks again.
        return topics.committed(self.bootstrap, group, topic, timeout_s=REQUEST_TIMEOUT_S)

    def _cluster_id(self, timeout_s: float = 1.0) -> str | None:
        """Return the id of the cluster that answers here, `None` while none does.

        A caller that waits for a start compares it: another broker may have taken the port.
        """
        try:
            metadata = self._admin().list_topics(timeout=timeout_s)
        except KafkaException:
            return None  # not yet: the caller polls, and reports the broker's own log at its deadline
        return metadata.cluster_id if metadata.brokers else None

    def _led_partitions(self, name: str) -> int:
        # The full list, because asking for one missing topic by name is an error, not an answer.
        topic = self._admin().list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(name)
        return sum(partition.leader >= 0 for partition in topic.partitions.values()) if topic else 0

    def _admin(self) -> AdminClient:
        if self._admin_client is None:
            self._admin_client = AdminClient(
                {
                    "bootstrap.servers": self.bootstrap,
                    # A broker that is just starting, or was killed on purpose, is no news for a log.
                    "log_level": 0,
                    "reconnect.backoff.ms": 20,
                    "reconnect.backoff.max.ms": 200,
                }
            )
        return self._admin_client


def _result(futures: Mapping[Any, Any]) -> Any:
    """Wait for the one request; return its answer or raise its error."""
    (future,) = futures.values()
    return future.result(REQUEST_TIMEOUT_S)


def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise EndpointError(f"{complaint} after {REQUEST_TIMEOUT_S:g} s; see the broker's log")
        time.sleep(POLL_S)
