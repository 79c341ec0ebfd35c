"""What `commit` and `store_offsets` do, and `enable.auto.commit`.

Turns a program's arguments, or what it has been given, into a request of `commit_sender`, and its answer into
what confluent-kafka would return, raise or call back. Arguments that it does not understand are left to
confluent-kafka, which says what is wrong with them. Any thread; `ask_auto` on the polling one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.cimpl import Message
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.consumer.commit_requests import AS_MARKED, CommitRequest
from ehkafka.consumer.positions import behind, position_of
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.consumer.commit_sender import CommitSender
    from ehkafka.consumer.internals import Internals
    from ehkafka.consumer.positions import Positions
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition


class Committing:
    """The commits of one consumer, as its program knows them."""

    def __init__(self, internals: Internals) -> None:
        self._internals = internals

    def asked(self, message: object, offsets: object) -> CommitRequest | None:
        """Return what a call of `commit` asks for; None: confluent-kafka has to see to it."""
        if message is not None or offsets is not None:
            if offsets is None and type(message) is Message and message.topic() is None:
                return CommitRequest({}, [])  # confluent-kafka would end the process
            return self._explicit(message, offsets)
        self._internals.deviating.report("bare_commit")
        return self._bare()

    def commit(self, ask: CommitRequest, *, is_asynchronous: bool) -> list[KafkaPartition] | None:
        """Commit it, and return what `commit` returns. Raises `KafkaException`, as confluent-kafka does."""
        if not ask.positions:
            self._commit_nothing(ask, is_asynchronous=is_asynchronous)
            return None
        self._internals.deviating.report("coalescing")
        return self._commit(self._internals.commits, ask, is_asynchronous=is_asynchronous)

    def _commit(
        self, commits: CommitSender, ask: CommitRequest, *, is_asynchronous: bool
    ) -> list[KafkaPartition] | None:
        internals = self._internals
        if is_asynchronous:
            ask.is_reported = internals.on_commit is not None
            commits.ask(ask)
            return None
        if internals.program_settings.sync_commit == "deferred":
            commits.ask(ask)
            return ask.answered(None, {})[1]
        error, partitions = commits.commit(ask)
        if error is not None:
            raise KafkaException(error)
        return partitions

    def _commit_nothing(self, ask: CommitRequest, *, is_asynchronous: bool) -> None:
        """Answer a commit when nothing is to be committed, as librdkafka does."""
        self._internals.access.refuse_while_closing()
        nothing: Any = ClientCode.NO_OFFSET
        if not is_asynchronous:
            raise KafkaException(KafkaError(nothing, "Commit failed: Local: No offset stored"))
        listed = [KafkaPartition(*partition, OFFSET_INVALID) for partition in ask.listed]
        self._internals.answers.append((KafkaError(nothing), listed))

    def store(self, message: object, offsets: object, bare: Callable[..., object]) -> None:
        """Take what `store_offsets` was given; `bare` is confluent-kafka's own, which says what is wrong."""
        marks = self._internals.marks
        positions = _positions_of(message, offsets, has_marks=marks is not None)
        if positions is None or marks is None:
            bare(message, offsets)
        if positions is None:
            return
        if marks is not None:
            for partition, position in positions:
                marks.mark(partition, position.next_offset - 1)
        elif not self._internals.program_settings.auto_store:
            self._internals.stored.store(dict(positions))

    def ask_auto(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Ask for what `enable.auto.commit` commits now; of these partitions, or of all at an interval."""
        internals = self._internals
        if not internals.program_settings.auto_commit:
            return
        if partitions is None and internals.commits.has_unanswered:
            return  # else a slow answer brings the same commit again; the next interval asks for the rest
        internals.deviating.report("auto_commit")
        positions = self._automatic()
        if partitions is not None:
            positions = {p: position for p, position in positions.items() if p in partitions}
        if positions:
            ask = CommitRequest(positions, list(positions), is_reported=internals.on_commit is not None)
            internals.commits.ask(ask, will_flush=partitions is not None)

    def _explicit(self, message: object, offsets: object) -> CommitRequest | None:
        """Return what an explicit commit asks for."""
        marks, held = self._internals.marks, self._internals.held
        positions = _positions_of(message, offsets, has_marks=marks is not None)
        if positions is None:
            return None
        listed = sorted(partition for partition, _ in positions)  # as librdkafka answers
        if marks is None:
            return CommitRequest(dict(positions), listed)
        # Of a partition that is not ours any more nothing is committed: who has it now knows better, and
        # what was delivered to us and never marked must not be passed there either.
        known = [p for p, position in positions if marks.mark(p, position.next_offset - 1) and p in held]
        return CommitRequest(dict.fromkeys(known, AS_MARKED), listed)

    def _bare(self) -> CommitRequest:
        """Return what a commit without arguments asks for: what has moved of the assigned partitions."""
        internals = self._internals
        if internals.marks is not None:
            marked = [partition for partition in internals.marks.partitions() if partition in internals.held]
            return CommitRequest(dict.fromkeys(marked, AS_MARKED), marked, is_bare=True)
        returned = internals.returned if internals.program_settings.auto_store else internals.stored
        return CommitRequest(self._moved(returned.now()), sorted(internals.held), is_bare=True)

    def _automatic(self) -> Positions:
        """Return what `enable.auto.commit` commits: what the program has had time for."""
        internals = self._internals
        if (marks := internals.marks) is not None:
            stored = internals.commits.acknowledged
            marked = {p: at for p in marks.partitions() if (at := marks.position(p)) is not None}
            moved = [p for p, at in marked.items() if p in internals.held and at.next_offset != stored(p)]
            return dict.fromkeys(moved, AS_MARKED)
        is_stored = not internals.program_settings.auto_store
        return self._moved(internals.stored.now() if is_stored else internals.returned.earlier())

    def _moved(self, positions: Positions) -> Positions:
        """Return the positions of assigned partitions that are ahead of what the broker has stored."""
        commits = self._internals.commits
        return {
            partition: position
            for partition, position in positions.items()
            if partition in self._internals.held
            and ((stored := commits.acknowledged(partition)) is None or position.next_offset > stored)
        }


def _positions_of(
    message: Any, offsets: Any, *, has_marks: bool
) -> list[tuple[TopicPartition, Position]] | None:
    """Return the positions that a message or a list of partitions with offsets stands for."""
    if message is not None:
        is_record = offsets is None and type(message) is Message and message.error() is None
        return [behind(message)] if is_record and _has_place(message) else None
    if type(offsets) is not list or not all(type(one) is KafkaPartition for one in offsets):
        return None
    positions = [position_of(one) for one in offsets if one.offset >= 0]
    # librdkafka leaves the others out, and answers for one that is named twice. With marks it must not see
    # those that it would take.
    return positions if positions and (has_marks or len(dict(positions)) == len(offsets)) else None


def _has_place(message: Message) -> bool:
    """Tell whether a record says where it is from; one that a program has made may not."""
    offset, partition = message.offset(), message.partition()
    return message.topic() is not None and partition is not None and offset is not None and offset >= 0
