"""What the commits of one drop-in say of their logs, and what distinguishes each log from another one.

The polling thread begins and ends partitions and learns; the thread that sends a commit calls `dressed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.intake.log_watch import WatchedLog
from ehkafka.progress.metadata import NOTHING_KNOWN, LogFacts, Unusable, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ehkafka.consumer.positions import Returned
    from ehkafka.positions.same_log import WitnessRecord
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition

# Facts take 64 bytes at most, and a reset's name as many.
_TEXT_BYTES_MAX: Final = 256


class CarriedFacts:
    """By partition, from when it is known what the group's commit said."""

    def __init__(self, returned: Returned) -> None:
        self._returned = returned
        # Each changed in one step by the polling thread.
        self._facts: dict[TopicPartition, LogFacts] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._last_epoch = 0
        # The last record that was returned of a log that is gone.
        self._stale: dict[TopicPartition, WitnessRecord | None] = {}
        # The broker takes metadata. Any thread.
        self._takes_metadata = True

    def begun(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin an epoch, in which nothing is known yet."""
        for partition in partitions:
            self._last_epoch += 1
            self._epochs[partition] = self._last_epoch
            self._facts.pop(partition, None)
            self._stale.pop(partition, None)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        for partition in partitions:
            self._epochs.pop(partition, None)
            self._facts.pop(partition, None)
            self._stale.pop(partition, None)

    def replaced(self, partition: TopicPartition, topic_id: bytes | None) -> None:
        """Its log is another one: what was known of the old one counts no more."""
        position = self._returned.now().get(partition)
        self._stale[partition] = None if position is None else position.facts.witness
        self.carry(partition, self.carried(partition).of_no_log()._replace(topic_id=topic_id))

    @property
    def has_any(self) -> bool:
        """Whether there are partitions."""
        return bool(self._epochs)

    def epoch(self, partition: TopicPartition) -> int | None:
        """Return the epoch of a partition of ours."""
        return self._epochs.get(partition)

    def unknown(self) -> dict[TopicPartition, int]:
        """Return those whose commit is still to be read, with their epochs."""
        return {partition: epoch for partition, epoch in self._epochs.items() if partition not in self._facts}

    def now(self) -> Mapping[TopicPartition, WatchedLog]:
        """Return all of which something is known."""
        returned = self._returned.now()
        return {p: self._watched(p, returned.get(p)) for p in self._facts}

    def carried(self, partition: TopicPartition) -> LogFacts:
        """Return the facts that a partition's commits carry."""
        return self._facts.get(partition, NOTHING_KNOWN)

    def carry(self, partition: TopicPartition, facts: LogFacts) -> None:
        """Let a partition's commits carry these."""
        self._facts[partition] = facts

    def refused(self) -> bool:
        """The broker found a commit's metadata too long: say nothing any more; False: nothing was said."""
        was_taken, self._takes_metadata = self._takes_metadata, False
        return was_taken

    def dressed(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """Return positions with what their commits say; what the program has given itself stays."""
        return {partition: self._dressed(partition, position) for partition, position in positions.items()}

    def _dressed(self, partition: TopicPartition, position: Position) -> Position:
        facts = self._facts.get(partition)
        if facts is None or position.metadata is not None:
            return position
        own = self._witness(partition, position)
        # As in an app's commits: without an id a witness stays until a look at the log has proved it.
        if own is not None and (facts.topic_id is not None or facts.witness is None):
            facts = facts._replace(witness=own)
        if facts.witness is not None and facts.witness[0] >= position.next_offset:
            facts = facts._replace(witness=None)
        text = (
            encode(position.next_offset, facts, (), None, _TEXT_BYTES_MAX).text
            if self._takes_metadata
            else None
        )
        return position._replace(metadata=text, facts=facts)

    def _watched(self, partition: TopicPartition, position: Position | None) -> WatchedLog:
        epoch = self._epochs[partition]
        if position is None:
            return WatchedLog(epoch, None, None)
        return WatchedLog(epoch, self._witness(partition, position), position.leader_epoch)

    def _witness(self, partition: TopicPartition, position: Position) -> WitnessRecord | None:
        own = position.facts.witness
        return None if own == self._stale.get(partition) else own


def without_ours(partitions: Sequence[KafkaPartition]) -> list[KafkaPartition]:
    """Return the group's commits without the metadata of ours."""
    return [without_metadata(one) if _is_ours(one) else one for one in partitions]


def without_metadata(partition: KafkaPartition) -> KafkaPartition:
    """Return a partition without metadata; one with an error stays as it is, for that cannot be set."""
    if partition.error is not None or not partition.metadata:
        return partition
    optional: dict[str, Any] = (
        {} if partition.leader_epoch is None else {"leader_epoch": partition.leader_epoch}
    )
    return KafkaPartition(partition.topic, partition.partition, partition.offset, **optional)


def _is_ours(partition: KafkaPartition) -> bool:
    text = partition.metadata
    return bool(text) and not isinstance(decode(text or "", partition.offset), Unusable)
