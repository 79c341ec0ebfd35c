"""What a program wants to be committed: its arguments, or what it has been given, as an `Ask`.

Says None where the arguments are none that it understands: confluent-kafka then says what is wrong with
them. Any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.consumer.asks import AS_MARKED, Ask
from ehkafka.consumer.auto_commit import moved
from ehkafka.consumer.positions import behind, position_of
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.consumer.parts import Parts
    from ehkafka.consumer.positions import Positions
    from ehkafka.progress.ledger import Position


class Wishes:
    """Reads the wishes of one consumer's program."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def asked(self, message: Any, offsets: Any) -> Ask | None:
        """Return what an explicit commit asks for."""
        positions = self.positions(message, offsets)
        if positions is None:
            return None
        listed = sorted(partition for partition, _ in positions)  # as librdkafka answers
        marks = self._parts.marks
        if marks is None:
            return Ask(dict(positions), listed)
        known = [marks.mark(partition, position.next_offset - 1) for partition, position in positions]
        if not all(known):
            return None  # of a partition that is not ours any more: as confluent-kafka has it
        return Ask(dict.fromkeys(listed, AS_MARKED), listed)

    def bare(self, assigned: Sequence[KafkaPartition]) -> Ask:
        """Return what a commit without arguments asks for: what has moved of the assigned partitions."""
        parts = self._parts
        if parts.marks is not None:
            marked = parts.marks.partitions()
            return Ask(dict.fromkeys(marked, AS_MARKED), marked)
        returned = parts.returned.now() if parts.choices.auto_store else parts.stored.now()
        listed = [TopicPartition(p.topic, p.partition) for p in assigned]
        positions = {partition: returned[partition] for partition in listed if partition in returned}
        return Ask(self._moved(positions), listed)

    def automatic(self) -> Positions:
        """Return what `enable.auto.commit` commits: what the program has had time for."""
        parts = self._parts
        if parts.marks is not None:
            return dict.fromkeys(parts.marks.partitions(), AS_MARKED)
        return self._moved(parts.returned.earlier() if parts.choices.auto_store else parts.stored.now())

    @staticmethod
    def positions(message: Any, offsets: Any) -> list[tuple[TopicPartition, Position]] | None:
        """Return the positions that a message or a list of partitions with offsets stands for."""
        if message is not None:
            is_record = offsets is None and type(message) is Message and message.error() is None
            return [behind(message)] if is_record and (message.offset() or 0) >= 0 else None
        if type(offsets) is not list or not offsets:
            return None
        if not all(type(one) is KafkaPartition and one.offset >= 0 for one in offsets):
            return None
        return [position_of(one) for one in offsets]

    def _moved(self, positions: Positions) -> Positions:
        commits = self._parts.commits
        return positions if commits is None else moved(positions, commits.acknowledged)
