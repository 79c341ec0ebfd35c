"""Reads topics of a test's broker from their begin, and keeps what it has read.

Once it is closed it answers from that. Any thread.
"""

from __future__ import annotations

import threading
import time
from heapq import merge
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import Consumer
from confluent_kafka.cimpl import TopicPartition as Position

from ehkafka.errors import EndpointError, TopicNotFoundError
from ehkafka.records import Record, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

_ANSWER_S = 10.0
_READ_S = 0.2
_RECORDS = 1_000


class TopicLogs:
    """One consumer that belongs to no group, and the records that it has read."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "ehkafka-test-reads",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
                "allow.auto.create.topics": False,
            }
        )
        # Guards the consumer and the records.
        self._lock = threading.Lock()
        self._is_closed = False
        self._records: dict[TopicPartition, list[Record]] = {}
        # Topics whose last reading came to their ends.
        self._known: set[str] = set()

    def ends(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return where the logs end, of partitions that hold anything."""
        with self._lock:
            found = {where: self._bounds(where)[1] for topic in topics for where in self._partitions(topic)}
            return {where: end for where, end in found.items() if end > 0}

    def read(self, topic: str) -> list[Record]:
        """Return all records of a topic: those of a partition in order, partitions merged by their times."""
        with self._lock:
            if not self._is_closed:
                self._known.discard(topic)
                self._read_on(topic)
                self._known.add(topic)
            logs = [log for where, log in sorted(self._records.items()) if where.topic == topic]
            if topic not in self._known:
                raise TopicNotFoundError(
                    f"Topic {topic} was not read before the test's broker ended: read it inside of the block."
                )
        return list(merge(*logs, key=lambda record: record.timestamp()[1]))

    def count(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        with self._lock:
            return len(self._partitions(topic))

    def close(self) -> None:
        """Let go of the broker."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._consumer.close()

    def _partitions(self, topic: str) -> list[TopicPartition]:
        try:
            known = self._consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        except KafkaException as failure:
            raise EndpointError(f"Topic {topic} of the test's broker cannot be read: {failure}.") from failure
        if known.error is not None:
            raise TopicNotFoundError(
                f"The test's broker has no topic {topic}. Correct the name, or make it by "
                f"run(app, topics={{{topic!r}: 1}})."
            )
        return [TopicPartition(topic, number) for number in sorted(known.partitions)]

    def _bounds(self, where: TopicPartition) -> tuple[int, int]:
        try:
            bounds: tuple[int, int] = self._consumer.get_watermark_offsets(
                Position(where.topic, where.partition), timeout=_ANSWER_S
            )
        except KafkaException as failure:
            raise EndpointError(f"{where} of the test's broker cannot be read: {failure}.") from failure
        return bounds

    def _read_on(self, topic: str) -> None:
        """Read up to where the logs end now."""
        behind: dict[TopicPartition, int] = {}
        begins: list[Position] = []
        for where in self._partitions(topic):
            self._records.setdefault(where, [])
            low, end = self._bounds(where)
            begin = max(low, self._next(where))
            if begin < end:
                behind[where] = end
                begins.append(Position(where.topic, where.partition, begin))
        if not behind:
            return
        self._consumer.assign(begins)
        try:
            self._read_to(behind)
        finally:
            self._consumer.unassign()

    def _next(self, where: TopicPartition) -> int:
        log = self._records[where]
        return log[-1].offset() + 1 if log else 0

    def _read_to(self, ends: dict[TopicPartition, int]) -> None:
        give_up_s = time.monotonic() + _ANSWER_S
        while ends:
            # No more than there are: `consume` waits its whole time for what does not come.
            left = sum(max(1, end - self._next(where)) for where, end in ends.items())
            for message in self._consumer.consume(min(left, _RECORDS), _READ_S):
                if message.error() is not None:
                    continue  # librdkafka retries; what stays away ends the loop below
                record = Record(message)  # type: ignore[arg-type]
                where = TopicPartition(record.topic(), record.partition())
                self._records[where].append(record)
                if self._next(where) >= ends.get(where, 0):
                    ends.pop(where, None)
            if ends and time.monotonic() > give_up_s:
                where, end = next(iter(ends.items()))
                raise EndpointError(
                    f"{where} of the test's broker did not come up to offset {end} within {_ANSWER_S:.0f} s."
                )
