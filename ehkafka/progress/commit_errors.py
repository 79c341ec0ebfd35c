"""Classes of commit errors: what the engine does about each.

Codes are those of the Kafka protocol and of librdkafka, as `confluent_kafka.KafkaError` names them.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as KafkaErrorType


class CommitError(enum.Enum):
    """What a refused commit means for the partitions in it."""

    # The coordinator is busy, moving or away, or the reason is unknown: stay dirty, try again later.
    RETRY = "retry"
    # The group rebalances, and this member may have the next generation soon: stay dirty, try again after
    # the join. If it does not rebalance, librdkafka reports the partitions as lost.
    REJOIN = "rejoin"
    # The group no longer knows this member: librdkafka rejoins, the partitions are lost.
    LOST = "lost"
    # Another process took our `group.instance.id`: stop.
    FENCED = "fenced"
    # The metadata is longer than the broker takes: commit without it.
    METADATA = "metadata"
    # We may not commit: stop, waiting does not fix it.
    DENIED = "denied"


_CLASSES = {
    KafkaError.REBALANCE_IN_PROGRESS: CommitError.REJOIN,
    KafkaError.ILLEGAL_GENERATION: CommitError.REJOIN,
    KafkaError.UNKNOWN_MEMBER_ID: CommitError.LOST,
    KafkaError._ASSIGNMENT_LOST: CommitError.LOST,  # noqa: SLF001 - librdkafka's own codes start with _
    KafkaError.FENCED_INSTANCE_ID: CommitError.FENCED,
    KafkaError._FENCED: CommitError.FENCED,  # noqa: SLF001
    KafkaError.OFFSET_METADATA_TOO_LARGE: CommitError.METADATA,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: CommitError.DENIED,
    KafkaError.GROUP_AUTHORIZATION_FAILED: CommitError.DENIED,
    KafkaError.INVALID_GROUP_ID: CommitError.DENIED,
}


def classify(error: KafkaErrorType) -> CommitError:
    """Return the class of an error; what is not known is worth another try."""
    return _CLASSES.get(error.code(), CommitError.RETRY)
