"""Whether a log is the one that a checkpoint was written for, told by one record's timestamp.

A topic that was deleted and made again, or a namespace that failed over, has the same names and other
records: to resume there by number would skip some. `judge` is pure; `Witness` asks the broker, with a
consumer of its own, for the poll thread is inside its own consumer while partitions are assigned.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.intake.log_bounds import log_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.intake.gap import LogBounds
    from ehkafka.records import TopicPartition

READ_S = 10.0
_POLL_S = 0.1


class Judgement(NamedTuple):
    """Whether the log is the same, and what says so."""

    is_same: bool
    reason: str


def judge(checkpoint: Checkpoint, log: LogBounds, found: tuple[int, int] | None) -> Judgement:
    """Compare a checkpoint with its log; `found` is the first record from the anchor on, as (offset, ms)."""
    next_offset, anchor = checkpoint.next_offset, checkpoint.anchor
    if next_offset == 0:
        return Judgement(is_same=True, reason="nothing had been processed before")
    if next_offset > log.end:
        return Judgement(is_same=False, reason=f"the log ends at {log.end}, before {next_offset}")
    if next_offset <= log.start:
        # Whichever log it is, nothing that it still holds is skipped.
        return Judgement(
            is_same=True, reason=f"the log begins at {log.start}, so nothing in it is passed over"
        )
    if anchor is None:
        return Judgement(is_same=False, reason="the mirror knows no record's timestamp to tell the log by")
    offset, wanted_ms = anchor
    if found is None or found[0] != offset:
        return Judgement(
            is_same=False,
            reason=f"the record at {offset}, of {_said(wanted_ms)}, by which to tell the log, is gone",
        )
    if found[1] != wanted_ms:
        return Judgement(
            is_same=False,
            reason=f"the record at {offset} was of {_said(wanted_ms)} and is of {_said(found[1])} now",
        )
    return Judgement(is_same=True, reason=f"the record at {offset} is still of {_said(wanted_ms)}")


class Witness:
    """Reads single records. `open_consumer` opens a consumer that joins no group."""

    def __init__(self, open_consumer: Callable[[], Consumer], timeout_s: float = READ_S) -> None:
        self._open = open_consumer
        self._timeout_s = timeout_s

    def judge(self, checkpoints: dict[TopicPartition, Checkpoint]) -> dict[TopicPartition, Judgement]:
        """Return a judgement of each. Raises `EndpointError`, `KafkaException`."""
        consumer = self._open()
        try:
            logs = log_bounds(consumer, list(checkpoints), self._timeout_s)
            return {
                partition: judge(
                    checkpoint, logs[partition], self._found(consumer, partition, checkpoint, log)
                )
                for partition, checkpoint in checkpoints.items()
                for log in (logs[partition],)
            }
        finally:
            consumer.close()

    def _found(
        self, consumer: Consumer, partition: TopicPartition, checkpoint: Checkpoint, log: LogBounds
    ) -> tuple[int, int] | None:
        if checkpoint.anchor is None or not log.start <= checkpoint.anchor[0] < log.end:
            return None
        consumer.assign([KafkaPartition(*partition, checkpoint.anchor[0])])
        deadline_s = time.monotonic() + self._timeout_s
        said = "no answer"
        while time.monotonic() < deadline_s:
            message = consumer.poll(_POLL_S)
            error = message.error() if message is not None else None
            if message is None:
                continue
            if error is None:
                return message.offset() or 0, message.timestamp()[1]
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own codes start with _
                return None
            said = describe_error(error)
        raise EndpointError(
            f"The record {partition}@{checkpoint.anchor[0]}, by which to tell whether the log is the "
            f"mirror's, could not be read within {self._timeout_s:g} s: {said}"
        )


def _said(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds")
