"""Which record a group's commit waits for: the first one at the commit, read from the log.

With a consumer of its own, which is given partitions, joins no group and commits nothing. One read for each
partition, all at once and bounded in time together: what was not read by then says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import NO_SUCH_OFFSET, failed_fetch
from ehkafka.positions.witness import witness_properties
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer, Message

READ_S: Final = 5.0
"""How long all records of one look may take together."""

_POLL_S: Final = 0.1
_ISOLATION: Final = "isolation.level"
# Waiting does not help.
_FOR_GOOD: Final = {*NO_SUCH_OFFSET, KafkaError.TOPIC_AUTHORIZATION_FAILED}


class Blocking(NamedTuple):
    """The record at a commit; `timestamp_ms` is None where it has none.

    Or `problem` says why it was not read: `offset` is then where it was looked for.
    """

    offset: int
    key: bytes | None = None
    timestamp_ms: int | None = None
    problem: str = ""
    leader_epoch: int | None = None

    def age_s(self, now_s: float) -> float | None:
        """Return how old it is at a time since the epoch; None where that is not known."""
        return None if self.timestamp_ms is None else max(0.0, now_s - self.timestamp_ms / 1000)


def reading_properties(properties: Mapping[str, object]) -> dict[str, Any]:
    """Return the properties of a consumer that reads single records, those that the group would be given."""
    isolation = properties.get(_ISOLATION, "read_committed")
    return {**witness_properties(properties), _ISOLATION: isolation}


def unverified_properties(properties: Mapping[str, object]) -> dict[str, Any]:
    """Return those of one that may meet a wrong checksum: librdkafka can end the process behind it."""
    return {**reading_properties(properties), "check.crcs": False}


def blocking_records(
    consumer: Consumer, offsets: Mapping[TopicPartition, int], timeout_s: float = READ_S
) -> dict[TopicPartition, Blocking]:
    """Return the first record from each of these offsets on. Assigns the consumer.

    Where the log has none from there on, the partition is left out: what is left are no records.
    """
    ends_s = time.monotonic() + timeout_s
    left = dict(offsets)
    found: dict[TopicPartition, Blocking] = {}
    if left:
        consumer.assign([KafkaPartition(*partition, offset) for partition, offset in left.items()])
    while left and time.monotonic() < ends_s:
        for message in consumer.consume(len(left), _POLL_S):
            partition = TopicPartition(message.topic(), message.partition())  # type: ignore[arg-type]
            if partition not in left or not _is_answer(message):
                continue
            offset = left.pop(partition)
            if (one := _taken(message, offset)) is not None:
                found[partition] = one
            # No more of it: the other partitions' records come the sooner.
            consumer.pause([KafkaPartition(*partition)])
    late = {partition: Blocking(offset, problem="not read in time") for partition, offset in left.items()}
    return found | late


def _is_answer(message: Message) -> bool:
    error, failed = message.error(), failed_fetch(message)
    if failed is not None:
        return failed.is_batch
    return error is None or error.code() in {ClientCode.PARTITION_EOF, *_FOR_GOOD}


def _taken(message: Message, offset: int) -> Blocking | None:
    error = message.error()
    if error is None:
        kind, timestamp_ms = message.timestamp()
        known = kind != TIMESTAMP_NOT_AVAILABLE
        at_ms = timestamp_ms if known else None
        return Blocking(message.offset() or 0, _key_of(message), at_ms, leader_epoch=message.leader_epoch())
    if (failed := failed_fetch(message)) is not None:
        return Blocking(max(offset, failed.offset), problem=f"the batch cannot be read: {error.name()}")
    return Blocking(offset, problem=f"not read: {error.name()}") if error.code() in _FOR_GOOD else None


def _key_of(message: Message) -> bytes | None:
    key = message.key()
    return key.encode() if isinstance(key, str) else key
