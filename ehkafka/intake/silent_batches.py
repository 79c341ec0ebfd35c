"""Finds batches that the client cannot parse and of which it reports nothing: their partitions stand still.

A client of its own reads on from there, on the asker's thread; its statistics tell them from a log without
records and from an open transaction. Poll thread, twice a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from ehkafka.endpoint.broker_errors import FailedFetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.positions.log_asker import TailQuestion
    from ehkafka.records import TopicPartition

# After so long a standstill the log is read, and again after so long.
SILENT_S: Final = 3.0
AGAIN_S: Final = 60.0


class SilentBatches:
    """Reads one partition at a time; `note` takes what was found."""

    def __init__(self, context: IntakeContext, note: Callable[[FailedFetch], None]) -> None:
        self._context = context
        self._note = note
        self._question: TailQuestion | None = None
        # From where a partition was read last, and when.
        self._read: dict[TopicPartition, tuple[int, float]] = {}

    def check(self) -> None:
        """Take an answer, and have the next partition read."""
        if self._question is not None and not self._question.done.is_set():
            return
        question, self._question = self._question, None
        for partition in question.broken if question is not None else ():
            owned, (begin, _end) = self._context.owned.get(partition), question.tails[partition]  # type: ignore[union-attr]
            if owned is not None and self._begin(owned.assignment) == begin:
                error = KafkaError(KafkaError._BAD_MSG, "its records cannot be parsed")  # noqa: SLF001 - librdkafka's
                self._note(FailedFetch(partition, begin, error))
        asker, now_s = self._context.asker, self._context.clock()
        due = next((one for one in self._context.owned.assignments() if self._is_due(one, now_s)), None)
        if asker is not None and due is not None:
            begin = self._begin(due)
            self._read[due.partition] = begin, now_s
            end = self._context.owned.logs.end(due.partition) or 0
            self._question = asker.read_tails({due.partition: (begin, end)})

    def _begin(self, assignment: Assignment) -> int:
        known = self._context.owned.logs.get(assignment.partition)
        start = known.start if known is not None and known.start is not None else 0
        return max(start, assignment.received_next or 0)

    def _is_due(self, assignment: Assignment, now_s: float) -> bool:
        context, partition = self._context, assignment.partition
        lasts_s = context.standstill.lasts_s(partition, assignment.received_next or 0, now_s)
        if lasts_s < SILENT_S or partition in context.unreadable:
            return False
        begin, read_s = self._read.get(partition, (-1, now_s))
        return begin != self._begin(assignment) or now_s >= read_s + AGAIN_S
