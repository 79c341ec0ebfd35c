"""Takes the committer's positions in an app that sends exactly once, and commits them in transactions.

On the poll thread, except for the wait for a run's last commit. Offsets are sent with the group's metadata of
the moment in which they were fixed: if the group has dropped this member since then, the broker refuses them.

A broker checks a transaction's offsets only by these metadata. If the group has dropped a member, its
metadata have generation -1 and no member id, and a broker accepts offsets with them no matter which member
owns the partitions (librdkafka, rdkafka_cgrp.c; Kafka, KIP-447). confluent-kafka returns the bytes of
librdkafka: `CGMDv2:`, the generation in the machine's byte order, then group, member and instance, each ended
by a zero byte.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.progress.commit_transports import Answer, Wait
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from ehkafka.transactions.loop import TransactionLoop

# How long the abort of a transaction that is not needed any more may take.
UNWANTED_S = 2.0
# If a transaction was aborted after this share of `wait_s`, it took too long.
TOO_LONG_SHARE = 0.5
# Another process has the producer's id now, or its transaction took longer than the broker permits.
FENCED: Final = frozenset({ClientCode.FENCED, 47, 90})
_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("=i")


class SendOffsets:
    """The positions of one transaction. `error` is valid once `done` is set; None: committed."""

    def __init__(
        self,
        positions: Mapping[TopicPartition, Position],
        metadata: bytes,
        changed: Mapping[TopicPartition, Position],
    ) -> None:
        """`metadata` are the group's; `changed` are the positions that differ from the group's commits."""
        self.positions = positions
        self.metadata = metadata
        self.changed = changed
        # From here on only the broker knows the result.
        self.is_committing = False
        self.error: KafkaError | None = None
        # How long its last transaction took.
        self.took_s = 0.0
        self.done = threading.Event()
        # It is not needed any more: abort it unless it is being committed. Set by the poll thread.
        self.is_unwanted = False

    @property
    def answer(self) -> KafkaError | None:
        """The error for the committer: a fenced producer does not mean a fenced member of the group."""
        if self.error is None or self.error.code() not in FENCED:
            return self.error
        return KafkaError(ClientCode.STATE, describe_error(self.error))


class TransactionalCommits:
    """Carries out commits as transactions."""

    def __init__(
        self,
        loop: TransactionLoop,
        acknowledged: Callable[[TopicPartition], Position | None],
        *,
        wait_s: float,
    ) -> None:
        """`acknowledged` returns the group's commit of a partition; callers wait up to `wait_s` for one."""
        self._loop = loop
        self._acknowledged = acknowledged
        self._wait_s = wait_s
        # Submitted, without a caller that waits. Poll thread.
        self._under_way: deque[SendOffsets] = deque()
        # The most partitions of a transaction, after one that took too long, and the first partition of the
        # next one. Poll thread.
        self._partitions_max: int | None = None
        self._first = 0

    def chosen(self, positions: Mapping[TopicPartition, Position]) -> Mapping[TopicPartition, Position]:
        """Return the positions of the next transaction: fewer after one that took too long.

        Otherwise the next one would have the same positions and more, and nothing would ever be committed.
        Positions that the group has already get no turn while there are others.
        """
        most = self._partitions_max
        positions = (self._changed(positions) or positions) if most is not None else positions
        if most is None or most >= len(positions):
            return positions
        partitions = sorted(positions)
        first = self._first % len(partitions)
        self._first = first + most
        return {partition: positions[partition] for partition in [*partitions, *partitions][first:][:most]}

    def begin(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> None:
        """Start a transaction. Raises `KafkaException` where this process is no member of the group."""
        request = self._request(consumer, positions)
        self._under_way.append(request)
        self._loop.submit(request)

    def ready(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> Wait:
        """Fix the positions of a transaction; return a function that carries it out within `wait_s`.

        This reads the group's metadata now: on any thread but the poll thread that call may never return
        (confluent-kafka 2.16.1).
        """
        try:
            request = self._request(consumer, positions)
        except KafkaException as refused:
            error = refused.args[0]
            return lambda _timeout_s: (error, ())
        return lambda timeout_s: self._now(request, timeout_s)

    def _now(self, request: SendOffsets, timeout_s: float | None) -> Answer:
        wait_s = self._wait_s if timeout_s is None else min(timeout_s, self._wait_s)
        self._loop.submit(request)
        if not request.done.wait(wait_s):
            self._end(request, UNWANTED_S if wait_s == self._wait_s else 0.0)
            if not request.done.is_set():
                text = f"the transaction has not ended after {seconds(wait_s)}"
                return KafkaError(ClientCode.TIMED_OUT, text), ()
        return request.answer, ()

    def answers(self) -> list[Answer]:
        """Return the results of finished transactions, each once."""
        found: list[Answer] = []
        while self._under_way and self._under_way[0].done.is_set():
            request = self._under_way.popleft()
            self._note_time(request)
            found.append((request.answer, ()))
        return found

    def settle(self, timeout_s: float | None) -> bool:
        """Wait until no transaction is under way, `wait_s` at most; False: one may still be committed."""
        wait_s = self._wait_s if timeout_s is None else min(timeout_s, self._wait_s)
        for request in self._under_way:
            if not request.done.wait(wait_s):
                self._end(request)
        return all(request.done.is_set() for request in self._under_way)

    def _note_time(self, request: SendOffsets) -> None:
        """Halve the next transaction after one that took too long; double it after one that was committed."""
        count = len(request.positions)
        if request.error is None:
            is_whole = self._partitions_max is None or count < self._partitions_max
            self._partitions_max = None if is_whole else 2 * count
        elif request.took_s >= TOO_LONG_SHARE * self._wait_s:
            self._partitions_max = max(1, count // 2)

    def end_unwanted(self, timeout_s: float) -> None:
        """Abort the transactions that are not being committed: their partitions are lost."""
        for request in self._under_way:
            request.is_unwanted = True
        for request in self._under_way:
            request.done.wait(timeout_s)

    @staticmethod
    def _end(request: SendOffsets, timeout_s: float = UNWANTED_S) -> None:
        """Abort a transaction unless it is being committed, and wait for that."""
        request.is_unwanted = True
        request.done.wait(timeout_s)

    def _request(self, consumer: Consumer, positions: Mapping[TopicPartition, Position]) -> SendOffsets:
        metadata = consumer.consumer_group_metadata()
        # A broker accepts offsets from a client that is no member of the group, whichever member owns the
        # partitions. So a transaction without a membership is refused here.
        if not is_member(metadata):
            raise KafkaException(
                KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "the group has removed this member, which rejoins")
            )
        return SendOffsets(positions, metadata, self._changed(positions))

    def _changed(self, positions: Mapping[TopicPartition, Position]) -> Mapping[TopicPartition, Position]:
        """Return those that differ from the group's commits."""
        changed = {}
        for partition, position in positions.items():
            known, now = self._acknowledged(partition), (position.next_offset, position.metadata)
            if known is None or (known.next_offset, known.metadata) != now:
                changed[partition] = position
        return changed


def metadata_of_no_member(group: str) -> bytes:
    """Return a group's metadata for a client that is no member of it."""
    return b"".join((_MAGIC, _GENERATION.pack(-1), group.encode(), b"\0\0\1"))


def is_member(metadata: bytes | None) -> bool:
    """Tell whether a consumer's group metadata name a member, so that the broker sees if it was dropped."""
    head = len(_MAGIC) + _GENERATION.size
    if not metadata or not metadata.startswith(_MAGIC) or len(metadata) < head:
        return False
    (generation,) = _GENERATION.unpack_from(metadata, len(_MAGIC))
    texts = metadata[head:].split(b"\0")
    return generation >= 0 and len(texts) >= 3 and texts[1] != b""
