"""Put records into a topic and read a group's commits, on any broker.

Responsible for failing loudly: a record that was not acknowledged or a topic that does not
exist is an exception, never a shorter answer. It must never join a group or commit. Called
by tests on their own thread; every function opens one client and closes it again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.cimpl import Consumer, Producer, TopicPartition

from ehkafka.embedded.numbers import is_whole
from ehkafka.errors import ConfigurationError, EndpointError, TopicNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

Key: TypeAlias = "str | bytes | None"
KeyAndValue: TypeAlias = "tuple[Key, str | bytes | None]"
Headers: TypeAlias = "Mapping[str, str | bytes | None] | list[tuple[str, str | bytes | None]]"

_ANY_PARTITION = -1
_NOW = 0  # what confluent-kafka takes as "stamp it yourself"
_ROOM_WAIT_S = 0.05
# What a group's coordinator answers that has just been made or moved: worth another try.
NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_NOT_YET_WAIT_S = 0.1


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[KeyAndValue],
    *,
    partition: int | None = None,
    headers: Headers | None = None,
    timestamp_ms: int | None = None,
    properties: Mapping[str, object] | None = None,
    timeout_s: float = 30.0,
) -> int:
    """Produce (key, value) pairs in order and wait for every acknowledgement; return how many.

    `partition`, `headers` and `timestamp_ms` apply to all of them; without `partition` the
    key decides. `properties` are further librdkafka properties (security and the like).
    """
    if partition is not None and not is_whole(partition, 0):
        raise ConfigurationError(f"{partition!r:.80} is no partition: give a number, 0 or more, or None.")
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    own = {"linger.ms": 1, "message.timeout.ms": int(timeout_s * 1000)}
    producer = Producer({"bootstrap.servers": bootstrap, **own, **(properties or {})})
    options: dict[str, Any] = {
        "topic": topic,
        "partition": _ANY_PARTITION if partition is None else partition,
        "headers": list(headers.items()) if isinstance(headers, Mapping) else headers,
        "timestamp": _NOW if timestamp_ms is None else timestamp_ms,
        "on_delivery": delivered,
    }
    count = _produce_all(producer, records, options, time.monotonic() + timeout_s)
    if left := len(refused) + len(producer):
        reason = f"{refused[0].name()} ({refused[0].str()})" if refused else f"no answer in {timeout_s:g} s"
        raise EndpointError(
            f"{left} of {count} records for topic {topic} were not acknowledged: {reason}. "
            "Check that the topic and the partition exist and that the broker is reachable."
        )
    return count


def _produce_all(
    producer: Producer, records: Iterable[KeyAndValue], options: Mapping[str, object], deadline_s: float
) -> int:
    count = 0
    for key, value in records:
        _enqueue(producer, deadline_s, key=key, value=value, **options)
        count += 1
    # A second more than the records have: their own time-out carries the reason.
    producer.flush(max(0.0, deadline_s - time.monotonic()) + 1.0)
    return count


def committed(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    properties: Mapping[str, object] | None = None,
    timeout_s: float = 10.0,
) -> dict[int, int | None]:
    """Return the group's committed next_offset of each partition, `None` where it has none."""
    return {
        one.partition: None if one.offset == OFFSET_INVALID else one.offset
        for one in commits(bootstrap, group, topic, properties=properties, timeout_s=timeout_s)
    }


def commits(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    properties: Mapping[str, object] | None = None,
    timeout_s: float = 10.0,
) -> list[TopicPartition]:
    """Return the group's commit of each partition, metadata included, in partition order."""
    check_group(group)
    own = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(own | dict(properties or {}))
    try:
        known = consumer.list_topics(str(topic), timeout=timeout_s).topics[str(topic)]
        if known.error is not None:
            raise TopicNotFoundError(
                f"Topic {topic} cannot be read: {known.error.name()} ({known.error.str()}). "
                "Create the topic, or correct its name."
            )
        wanted = [TopicPartition(topic, partition) for partition in sorted(known.partitions)]
        found = _read_commits(consumer, wanted, time.monotonic() + timeout_s)
    except KafkaException as failure:
        raise EndpointError(f"Commits of group {group} on {topic} could not be read: {failure}.") from failure
    finally:
        consumer.close()
    for one in found:
        if one.error is not None:
            raise EndpointError(
                f"The commit of group {group} on {topic} [{one.partition}] could not be read: {one.error}."
            )
    return found


def check_group(group: object) -> None:
    """Refuse what is no group's name: confluent-kafka ends the process for `None`."""
    if not isinstance(group, str) or not group or "\0" in group:
        raise ConfigurationError(f"{group!r:.80} is no group: give a group's name.")


def _read_commits(
    consumer: Consumer, wanted: list[TopicPartition], deadline_s: float
) -> list[TopicPartition]:
    while True:
        try:
            return consumer.committed(wanted, timeout=max(0.0, deadline_s - time.monotonic()))
        except KafkaException as failure:
            if failure.args[0].code() not in NOT_YET or time.monotonic() + _NOT_YET_WAIT_S > deadline_s:
                raise
        time.sleep(_NOT_YET_WAIT_S)


def _enqueue(producer: Producer, deadline_s: float, **record: Any) -> None:
    while True:
        try:
            producer.produce(**record)
        except BufferError:
            if time.monotonic() > deadline_s:
                raise EndpointError(
                    f"The queue for topic {record['topic']} stayed full: the broker does not keep up."
                ) from None
            producer.poll(_ROOM_WAIT_S)
        except KafkaException as failure:
            raise EndpointError(f"A record for topic {record['topic']} was refused: {failure}.") from failure
        else:
            return
