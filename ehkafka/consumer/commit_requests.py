"""Commits that were asked for and not yet sent: which of them share a request, and who is answered what.

Pure but for confluent-kafka's value classes; its owner has the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_INVALID, KafkaError
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.consumer.carried_facts import without_metadata
from ehkafka.progress.commit_transports import as_offset
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Answer = tuple[KafkaError | None, list[KafkaPartition]]
"""The error of the whole request, and the partitions, each with its own: what `on_commit` gets."""


_NOT_A_MEMBER = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, ClientCode.ASSIGNMENT_LOST}
"""What the broker says where the partitions of the assignment are not this consumer's any more."""

AS_MARKED = Position(0, OFFSET_INVALID)
"""Stands for wherever the marks of a partition are when the request is made."""


@dataclass(slots=True, eq=False)
class CommitRequest:
    """One commit that was asked for. `listed`: what the answer names, in this order."""

    positions: Mapping[TopicPartition, Position]
    listed: Sequence[TopicPartition]
    # Whether `on_commit` is to hear of it.
    is_reported: bool = False
    # Whether the program gave no partitions: it means those that are assigned.
    is_bare: bool = False
    # Written once, under the owner's lock.
    answer: Answer | None = None

    def answered(self, error: KafkaError | None, stored: Mapping[TopicPartition, KafkaPartition]) -> Answer:
        """Return what it is answered, given what the broker answered of the request that it was part of."""
        partitions = [self._partition(partition, stored.get(partition)) for partition in self.listed]
        refused = [partition.error for partition in partitions if partition.error is not None]
        if refused and len(refused) == len(partitions):
            # As librdkafka has it for a request: nothing was stored, so the commit has failed. Others in the
            # same request may have had more luck, or another error.
            last = refused[-1]
            error = KafkaError(last.code(), f"Commit failed: {last.str()}")
        if self.is_bare and error is not None and error.code() in _NOT_A_MEMBER:
            # librdkafka, which knows of some of these before the broker says it, has a name for all of them.
            lost = ClientCode.ASSIGNMENT_LOST
            return KafkaError(lost, f"Commit failed: {KafkaError(lost).str()}"), []
        return error, partitions

    def _partition(self, partition: TopicPartition, answered: KafkaPartition | None) -> KafkaPartition:
        position = self.positions.get(partition)
        if position is None:
            return KafkaPartition(*partition, OFFSET_INVALID)
        if position is AS_MARKED:
            return answered or KafkaPartition(*partition, OFFSET_INVALID)
        if answered is not None and (answered.error is not None or answered.offset == position.next_offset):
            return answered
        return as_offset(partition, position)


@dataclass(slots=True, eq=False)
class Merged:
    """What waits, then goes out as one: the newest position of each partition, and all who wait for it.

    The position asked for last counts, also where it goes back.
    """

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    # Of requests that no thread waits for only the positions are kept.
    commit_requests: list[CommitRequest] = field(default_factory=list)
    # Of those sent, from 1 on.
    number: int = 0
    # Where partitions stand that are not sent, because nothing has moved since.
    unmoved: dict[TopicPartition, Position] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.positions) or bool(self.commit_requests)

    def add(self, ask: CommitRequest, *, is_awaited: bool) -> None:
        """Take another one."""
        self.positions.update(ask.positions)
        if is_awaited or ask.is_reported:
            self.commit_requests.append(ask)

    def drop(self, partitions: Sequence[TopicPartition], error: KafkaError) -> list[CommitRequest]:
        """Give up those of partitions that are lost; return who is answered by that."""
        lost = set(partitions)
        for partition in lost:
            self.positions.pop(partition, None)
        given_up = [ask for ask in self.commit_requests if lost.issuperset(ask.positions)]
        self.commit_requests = [ask for ask in self.commit_requests if ask not in given_up]
        for ask in given_up:
            ask.answer = ask.answered(error, {})
        return given_up

    def is_answered_by(self, partitions: Sequence[KafkaPartition]) -> bool:
        """Tell whether an answer that names these is to this request."""
        named = {TopicPartition(p.topic, p.partition): p.offset for p in partitions}
        return named == {p: position.next_offset for p, position in self.positions.items()}

    def answer(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        """Answer each request."""
        stored = {p: as_offset(p, position) for p, position in self.unmoved.items()}
        stored |= {TopicPartition(p.topic, p.partition): self._as_asked(p) for p in partitions}
        for ask in self.commit_requests:
            ask.answer = ask.answered(error, stored)

    def _as_asked(self, answered: KafkaPartition) -> KafkaPartition:
        """Return what the broker answered of a partition, without metadata that the program has not given."""
        position = self.positions.get(TopicPartition(answered.topic, answered.partition))
        return without_metadata(answered) if position is None or position.metadata is None else answered
