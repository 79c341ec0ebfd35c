"""Finds out whether the broker returns what commits say beside their offsets.

Nobody has stated it of Event Hubs. The first commit that says something is read back once, with a consumer
of its own that joins no group, on a thread of its own: the poll thread must not wait for it. `acknowledged`
is called by the poll thread; `report` by the other one.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.progress.position import Progress
    from ehkafka.records import TopicPartition

TIMEOUT_S = 5.0
# A broker that does not answer so often leaves it unknown, for this run.
TRIES = 3


class ReadBack:
    """One question for a run. `report` is called once, with the answer; never, if there is none."""

    def __init__(self, open_consumer: Callable[[], Consumer], report: Callable[[bool], object]) -> None:
        self._open = open_consumer
        self._report = report
        # The poll thread's.
        self._tries_left = TRIES
        self._thread: threading.Thread | None = None
        # Written by the thread, read by the poll thread after it has ended.
        self._is_answered = False

    def acknowledged(self, stored: Mapping[TopicPartition, tuple[int, Progress]]) -> None:
        """Ask for one of these commits, unless that is being done, or is known."""
        if self._is_answered or not self._tries_left or self._is_asking:
            return
        partition = next((p for p, (_, progress) in stored.items() if progress.has_metadata), None)
        if partition is None:
            return
        self._tries_left -= 1
        next_offset = stored[partition][1].next_offset
        self._thread = threading.Thread(
            target=self._ask, args=(partition, next_offset), name="ehkafka-read-back", daemon=True
        )
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Wait for a question that is under way, at most so long."""
        self._tries_left = 0
        if self._thread is not None:
            self._thread.join(timeout_s)

    @property
    def _is_asking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _ask(self, partition: TopicPartition, next_offset: int) -> None:
        try:
            answer = self._committed(partition)
        except (KafkaException, EhkafkaError):
            return  # the next commit asks again
        # Without metadata only the very commit tells: a later one may be somebody else's.
        if answer.error is None and (answer.metadata or answer.offset == next_offset):
            self._is_answered = True
            self._report(bool(answer.metadata))

    def _committed(self, partition: TopicPartition) -> KafkaPartition:
        consumer = self._open()
        try:
            [answer] = consumer.committed([KafkaPartition(*partition)], timeout=TIMEOUT_S)
        finally:
            consumer.close()
        return answer
