"""What a program wants to be committed: its arguments, or what it has been given, as a `CommitRequest`.

Says None where the arguments are none that it understands: confluent-kafka then says what is wrong with
them. Any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import Message
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.consumer.auto_commit import moved
from ehkafka.consumer.commit_requests import AS_MARKED, CommitRequest
from ehkafka.consumer.positions import behind, position_of

if TYPE_CHECKING:
    from ehkafka.consumer.internals import Internals
    from ehkafka.consumer.positions import Positions
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


class Arguments:
    """Reads the arguments of one consumer's program's calls."""

    def __init__(self, internals: Internals) -> None:
        self._internals = internals

    def asked(self, message: Any, offsets: Any) -> CommitRequest | None:
        """Return what an explicit commit asks for."""
        positions = self.positions(message, offsets)
        if positions is None:
            return None
        listed = sorted(partition for partition, _ in positions)  # as librdkafka answers
        if self._internals.marks is None:
            return CommitRequest(dict(positions), listed)
        # Of a partition that is not ours any more nothing is committed: who has it now knows better, and
        # what was delivered to us and never marked must not be passed there either.
        known = [partition for partition, position in positions if self._mark(partition, position)]
        return CommitRequest(dict.fromkeys(known, AS_MARKED), listed)

    def bare(self) -> CommitRequest:
        """Return what a commit without arguments asks for: what has moved of the assigned partitions."""
        internals = self._internals
        if internals.marks is not None:
            marked = [partition for partition in internals.marks.partitions() if partition in internals.held]
            return CommitRequest(dict.fromkeys(marked, AS_MARKED), marked, is_bare=True)
        returned = (
            internals.returned.now() if internals.program_settings.auto_store else internals.stored.now()
        )
        listed = sorted(internals.held)
        positions = {partition: returned[partition] for partition in listed if partition in returned}
        return CommitRequest(self._moved(positions), listed, is_bare=True)

    def automatic(self) -> Positions:
        """Return what `enable.auto.commit` commits: what the program has had time for."""
        internals = self._internals
        if internals.marks is not None:
            return {
                p: AS_MARKED
                for p in internals.marks.partitions()
                if p in internals.held and self._has_marks(p)
            }
        done = (
            internals.returned.earlier() if internals.program_settings.auto_store else internals.stored.now()
        )
        return self._moved({p: position for p, position in done.items() if p in internals.held})

    def positions(self, message: Any, offsets: Any) -> list[tuple[TopicPartition, Position]] | None:
        """Return the positions that a message or a list of partitions with offsets stands for."""
        if message is not None:
            is_record = offsets is None and type(message) is Message and message.error() is None
            return [behind(message)] if is_record and _has_place(message) else None
        if type(offsets) is not list or not all(type(one) is KafkaPartition for one in offsets):
            return None
        good = [one for one in offsets if one.offset >= 0]
        positions = [position_of(one) for one in good]
        # librdkafka leaves the others out, and answers for one that is named twice. With marks it must not
        # see those that it would take.
        if not good or (self._internals.marks is None and len(dict(positions)) < len(offsets)):
            return None
        return positions

    def _mark(self, partition: TopicPartition, position: Position) -> bool:
        marks = self._internals.marks
        assert marks is not None
        return marks.mark(partition, position.next_offset - 1) and partition in self._internals.held

    def _has_marks(self, partition: TopicPartition) -> bool:
        marks, commits = self._internals.marks, self._internals.commits
        assert marks is not None
        assert commits is not None  # the guard needs them
        position = marks.position(partition)
        return position is not None and position.next_offset != commits.acknowledged(partition)

    def _moved(self, positions: Positions) -> Positions:
        commits = self._internals.commits
        return positions if commits is None else moved(positions, commits.acknowledged)


def _has_place(message: Message) -> bool:
    """Tell whether a record says where it is from; one that a program has made may not."""
    offset, partition = message.offset(), message.partition()
    return message.topic() is not None and partition is not None and offset is not None and offset >= 0
