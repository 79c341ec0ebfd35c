"""Reads the records that distinguish logs from others of their names: one of each partition, all at once.

With a consumer of its own, which joins no group and commits nothing. Bounded in time for all partitions
together: what was not read by then is left out, and proves nothing. Never on the poll thread, which does not
wait that long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import NO_SUCH_OFFSET, failed_fetch
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.positions.same_log import Reading
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from confluent_kafka import Consumer, Message

    from ehkafka.positions.same_log import Recognised

    Bounds = Literal["none", "others", "all"]

READ_S: Final = 5.0
"""How long all records of one look may take together."""

_POLL_S = 0.1
# A new leader may say for a moment that its log ends before what was read from the old one.
_END_LASTS_S = 1.0
_SMALLEST: Final[dict[str, Any]] = {
    # Less brings no less, for a broker sends one whole batch of records anyway; more fills an answer with the
    # first partitions. Measured: 64 partitions in 0.2 to 0.3 s, in 13 s with librdkafka's own two times.
    "fetch.message.max.bytes": 16_384,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 1,
    "queued.min.messages": 1,
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # The witness was finished once, whatever has become of its transaction's neighbours.
    "isolation.level": "read_uncommitted",
}


def witness_properties(properties: Mapping[str, object]) -> dict[str, Any]:
    """Return a consumer's properties changed for the reading of single records, without membership."""
    left_out = {"group.instance.id", "max.partition.fetch.bytes", "stats_cb", "statistics.interval.ms"}
    return {name: value for name, value in properties.items() if name not in left_out} | _SMALLEST


def read_witnesses(
    consumer: Consumer,
    offsets: Mapping[TopicPartition, int],
    timeout_s: float = READ_S,
    *,
    should_end: Callable[[], bool] = lambda: False,
) -> dict[TopicPartition, Reading]:
    """Return what the logs have at these offsets, of as many as were read in time. Assigns the consumer."""
    if not offsets:
        return {}
    check = _Check(consumer, offsets, time.monotonic() + timeout_s)
    consumer.assign([KafkaPartition(*partition, offset) for partition, offset in offsets.items()])
    while check.left and time.monotonic() < check.deadline_s and not should_end():
        for message in consumer.consume(len(check.left), _POLL_S):
            check.take(message)
        check.believe_ends()
    check.settle_outside()
    return check.found


def recognise(
    found: Recognised,
    opened: Callable[[], AbstractContextManager[Consumer]],
    *,
    reads: bool = True,
    bounds: Bounds = "none",
    timeout_s: float = READ_S,
    should_end: Callable[[], bool] = lambda: False,
) -> Recognised:
    """Add to the ids that are found what only the logs themselves tell. Raises `KafkaException`.

    `reads`: records are read where there are no ids. `bounds`: of which logs it is asked where they begin and
    end, of those that turn out to be others or of all.
    """
    unproved, ends_s = found.unproved() if reads else {}, time.monotonic() + timeout_s
    needs_bounds = bounds == "all" or (bounds == "others" and found.disproved())
    if should_end() or not (unproved or needs_bounds):
        return found
    with opened() as consumer:
        if bounds == "all":
            found.bounds = log_bounds(consumer, list(found.facts), timeout_s)
        left_s = max(0.1, ends_s - time.monotonic())
        found.readings = read_witnesses(consumer, unproved, left_s, should_end=should_end)
        if bounds == "others" and not should_end() and (others := found.disproved()):
            found.bounds = log_bounds(consumer, others, timeout_s)
    return found


class _Check:
    """One look at several logs."""

    def __init__(self, consumer: Consumer, offsets: Mapping[TopicPartition, int], deadline_s: float) -> None:
        self._consumer = consumer
        self._offsets = offsets
        self.deadline_s = deadline_s
        self.left = set(offsets)
        self.found: dict[TopicPartition, Reading] = {}
        # Where logs seem to end, and since when.
        self._ends: dict[TopicPartition, tuple[int, float]] = {}
        # The broker has refused their offsets.
        self._outside: list[TopicPartition] = []

    def take(self, message: Message) -> None:
        """Take what the consumer returned: a record, a log's end, a refusal; others are no answer."""
        partition = TopicPartition(message.topic(), message.partition())  # type: ignore[arg-type]
        if partition not in self.left:
            return
        error = message.error()
        if error is None:
            kind, timestamp_ms = message.timestamp()
            known = kind != TIMESTAMP_NOT_AVAILABLE
            self._found(partition, Reading((message.offset() or 0, timestamp_ms) if known else None))
        elif error.code() == ClientCode.PARTITION_EOF:
            end = message.offset() or 0
            self._ends.setdefault(partition, (end, time.monotonic()))
        elif error.code() in NO_SUCH_OFFSET:
            self.left.discard(partition)
            self._outside.append(partition)
        elif (failed := failed_fetch(message)) is not None and failed.is_batch:
            # It proves nothing, however long it is waited for.
            self.left.discard(partition)

    def believe_ends(self) -> None:
        """Take it that a log ends before its witness where nothing else came for a while."""
        now_s = time.monotonic()
        for partition in self.left & self._ends.keys():
            end, since_s = self._ends[partition]
            if now_s - since_s >= _END_LASTS_S:
                # A log that was compacted may end behind the witness without having it any more.
                is_before = end <= self._offsets[partition]
                self._found(partition, Reading(None, end if is_before else None))

    def settle_outside(self) -> None:
        """Tell of refused offsets on which side of their log they lie."""
        if not self._outside:
            return
        try:
            bounds = log_bounds(self._consumer, self._outside, max(0.1, self.deadline_s - time.monotonic()))
        except KafkaException:
            return
        for partition, (start, end) in bounds.items():
            offset = self._offsets[partition]
            if offset < start:
                self.found[partition] = Reading(None)
            elif offset >= end:
                self.found[partition] = Reading(None, end)

    def _found(self, partition: TopicPartition, reading: Reading) -> None:
        self.left.discard(partition)
        self.found[partition] = reading
        # No more of it: the other logs' records come the sooner.
        self._consumer.pause([KafkaPartition(*partition)])
