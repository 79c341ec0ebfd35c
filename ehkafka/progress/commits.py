"""How positions reach the broker: by the consumer, or what else carries commits out; what a refusal means."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition

    # The error of the whole request, and the partitions, each with its own error.
    Answer = tuple[KafkaError | None, Sequence[KafkaPartition]]


class Commits(Protocol):
    """Carries commits out, one at a time."""

    def chosen(self, positions: Mapping[TopicPartition, Position], /) -> Mapping[TopicPartition, Position]:
        """Return which of these positions the next one may have."""

    def begin(self, consumer: Consumer, positions: Mapping[TopicPartition, Position], /) -> None:
        """Start one. Raises `KafkaException` where that is refused at once."""

    def ready(
        self, consumer: Consumer, positions: Mapping[TopicPartition, Position], /
    ) -> Callable[[], Answer]:
        """Return what carries one out on any thread, and waits for its answer. On the poll thread."""

    def answers(self) -> Sequence[Answer]:
        """Return the answers to those that were started, unless they come by the consumer's `on_commit`."""

    def settle(self, timeout_s: float | None, /) -> bool:
        """Wait until none that was started can take outputs along; False: one still may."""


class ConsumerCommits:
    """By the consumer itself."""

    def chosen(self, positions: Mapping[TopicPartition, Position]) -> Mapping[TopicPartition, Position]:
        """Return all of them."""
        return positions

    def begin(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> None:
        """Start an asynchronous commit, which the consumer's `on_commit` hears of."""
        # Offsets are always named: a bare `commit()` takes what `consume()` handed out last, which no handler
        # may have seen yet.
        consumer.commit(offsets=_as_offsets(positions), asynchronous=True)

    def ready(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> Callable[[], Answer]:
        """Return a call that commits and waits; librdkafka's knows no time-out."""

        def now() -> Answer:
            try:
                stored = consumer.commit(offsets=_as_offsets(positions), asynchronous=False)
            except KafkaException as refused:
                return refused.args[0], ()
            except Exception as broken:  # e.g. closed meanwhile: reported as a refused commit
                return KafkaError(KafkaError._STATE, repr(broken)), ()  # noqa: SLF001 - librdkafka's own code
            return None, stored or ()

        return now

    def answers(self) -> Sequence[Answer]:
        """Return none: `on_commit` hears them."""
        return ()

    def settle(self, _timeout_s: float | None) -> bool:
        """Return True: no commit of a consumer has outputs."""
        return True


CONSUMER_COMMITS = ConsumerCommits()


def _as_offsets(positions: Mapping[TopicPartition, Position]) -> list[KafkaPartition]:
    return [as_offset(partition, position) for partition, position in positions.items()]


def as_offset(partition: TopicPartition, position: Position) -> KafkaPartition:
    """Return a position as confluent-kafka takes and returns it."""
    optional: dict[str, Any] = {}  # the C constructor takes no None
    if position.metadata is not None:
        optional["metadata"] = position.metadata
    if position.leader_epoch is not None:
        optional["leader_epoch"] = position.leader_epoch
    return KafkaPartition(partition.topic, partition.partition, position.next_offset, **optional)


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


def classify(error: KafkaError) -> CommitError:
    """Return the class of an error; what is not known is worth another try."""
    return _CLASSES.get(error.code(), CommitError.RETRY)
