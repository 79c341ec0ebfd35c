"""Reads a topic as it grows, for eyes: joins no group, commits nothing, and says what it cannot read.

Goes the way of a check's steps up to the topic, so that what is wrong is reported in the same words.
One thread at a time. Positions outside of the log are moved to its nearest end, and that is reported. A batch
that cannot be read ends it: what librdkafka returns behind one may be anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.inspection import Inspection
from ehkafka.checks.reach import enter, reach_topic
from ehkafka.checks.target import as_own_group
from ehkafka.endpoint.broker_errors import failed_fetch
from ehkafka.endpoint.client import check_client_version, describe_error
from ehkafka.errors import ConfigurationError, EndpointError, OffsetGapError
from ehkafka.events.partition import way_past
from ehkafka.positions.log_bounds import log_bounds, start_offsets
from ehkafka.positions.start import check_start
from ehkafka.records import TopicPartition, record_type
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from confluent_kafka import Consumer, Message

    from ehkafka.checks.target import Target
    from ehkafka.endpoint.broker_errors import FailedFetch
    from ehkafka.positions.gap import LogBounds
    from ehkafka.positions.start import Start
    from ehkafka.records import Record

BATCH_RECORDS = 500
# How late a record may be shown, and how long Ctrl-C may take.
WAIT_S = 0.1
# So many times `timeout_s` a reader to the end waits for records that are there: a leader may move meanwhile.
_PATIENCE: Final = 3
# The same of a reader of a group, which may be in the midst of a redrive: beyond what any leader takes.
_GROUP_PATIENCE_S: Final = 60.0
_OUT_OF_LOG = {ClientCode.AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


@dataclass(frozen=True, slots=True)
class LastRecords:
    """A place to begin: so many offsets before the end of each partition."""

    count: int


class TopicReader:
    """Reads a topic without a group; opened and closed as a context manager.

    Entering raises `ConfigurationError`, `EndpointError` or `TopicNotFoundError`.

    - `target` (required): the endpoint, as `Target`.
    - `topic` (required): what to read.
    - `begin` (default `"latest"`): where to begin in each partition: a start position, or `LastRecords`.
    - `partitions` (default `()`): the partitions to read; all of them if empty.
    - `timeout_s` (seconds, default `10.0`): how long each question to the broker may take.
    - `notice` (a function): gets what a person should know about the reading; by default nothing does.
    - `group` (default `""`): the group whose position is read from, which could be moved past a broken batch.
    - `to_end` (default `False`): end where the log ended when the reader was opened. Else `batches` never
      ends.
    """

    def __init__(
        self,
        target: Target,
        topic: str,
        *,
        begin: Start | LastRecords = "latest",
        partitions: Sequence[int] = (),
        timeout_s: float = 10.0,
        notice: Callable[[str], None] = lambda _text: None,
        group: str = "",
        to_end: bool = False,
    ) -> None:
        if not isinstance(begin, LastRecords):
            check_start(begin)
        self._target = target
        self._topic = topic
        self._begin = begin
        self._wanted = tuple(dict.fromkeys(partitions))
        self._notice = notice
        self._inspection = Inspection(target, timeout_s)
        self._record = record_type("auto", event_hubs=target.endpoint.is_event_hubs)
        self._reported: set[str] = set()
        self._group = group
        self._to_end = to_end
        # Where it begins, and where the logs ended then.
        self.begins: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        # Partitions that are not read to their end yet, with the next offset of each; only with `to_end`.
        self.unread: dict[TopicPartition, int] = {}
        self._held: set[TopicPartition] = set()
        # How long nothing has come while it was waited for.
        self._silent_s = 0.0

    def __enter__(self) -> Self:
        check_client_version()
        self._target.endpoint.prepare_topics([self._topic])
        own = as_own_group(self._target.client_properties())
        # The end of a compacted log may be nothing that is delivered: only the broker's word tells it.
        self._inspection.use({**own, "enable.partition.eof": self._to_end})
        enter(self._inspection, self._connect)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._inspection.close()

    def batches(self) -> Iterator[list[Record]]:
        """Yield what has come, an empty list now and then while nothing comes. Raises `EndpointError`.

        Without `to_end` what was read of other partitions is yielded before a batch that cannot be read ends
        it.
        """
        consumer = self._inspection.consumer()
        while self.unread or not self._to_end:
            messages = consumer.consume(BATCH_RECORDS, WAIT_S)
            records, broken = self._taken(messages)
            self._report_errors(is_reading=bool(records))
            yield records
            if broken is not None:
                raise EndpointError(f"{broken.text()} {self._behind(broken)}")
            self._check_silence(is_silent=not messages)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Read on in all partitions but these."""
        held, consumer = set(partitions), self._inspection.consumer()
        for change, which in ((consumer.pause, held - self._held), (consumer.resume, self._held - held)):
            if which:
                change([KafkaPartition(*one) for one in which])
        self._held = held

    def _behind(self, broken: FailedFetch) -> str:
        if not self._group:
            return "No record after it was read."
        return f"To skip it: {way_past(broken.partition, broken.offset, self._group)}"

    def _taken(self, messages: Sequence[Message]) -> tuple[list[Record], FailedFetch | None]:
        """Return the records of some messages, up to the first batch that cannot be read, and this one."""
        records = []
        for message in messages:
            error, failed = message.error(), failed_fetch(message)
            if error is None:
                record = self._record(message)  # type: ignore[arg-type]
                if not self._to_end or self._is_below_end(record):
                    records.append(record)
            elif failed is not None and failed.is_batch:
                return records, failed
            elif error.code() == ClientCode.PARTITION_EOF:
                self._note_end(message)
            else:
                self._on_error(error, message)
        return records, None

    def _note_end(self, message: Message) -> None:
        """Note that a log has nothing more now; a new leader's may end before what is there for a moment."""
        partition = TopicPartition(str(message.topic()), message.partition() or 0)
        if (message.offset() or 0) >= self.ends[partition]:
            self.unread.pop(partition, None)

    def _is_below_end(self, record: Record) -> bool:
        """Note how far a partition is read; False for a record that was written later."""
        partition, next_offset = TopicPartition(record.topic(), record.partition()), record.offset() + 1
        if next_offset >= self.ends[partition]:
            self.unread.pop(partition, None)
        elif partition in self.unread:
            self.unread[partition] = next_offset
        return next_offset <= self.ends[partition]

    def _check_silence(self, *, is_silent: bool) -> None:
        """Give up where records are there and none comes: of some broken batches the client says nothing."""
        self._silent_s = self._silent_s + WAIT_S if is_silent else 0.0
        patience_s = _GROUP_PATIENCE_S if self._group else _PATIENCE * self._inspection.timeout_s
        if self.unread and self._silent_s > patience_s:
            partition, offset = min(one for one in self.unread.items() if one[0] not in self._held)
            raise EndpointError(
                f"No record of {partition} arrived from offset {offset} within {seconds(patience_s)}, "
                f"although the log ends at {self.ends[partition]}. Check that the partition's leader is up. "
                f"If the leader is up, the batch is broken."
            )

    def _connect(self) -> None:
        consumer = reach_topic(self._inspection, self._topic)
        partitions = self._partitions()
        timeout_s = self._inspection.timeout_s
        try:
            logs = log_bounds(consumer, partitions, timeout_s)
            offsets = self._offsets(consumer, logs, timeout_s)
        except KafkaException as error:
            raise EndpointError(
                f"The start of the logs cannot be read: {ended(describe_error(error.args[0]))}"
            ) from None
        self.begins, self.ends = offsets, {partition: log.end for partition, log in logs.items()}
        if self._to_end:
            self.unread = {one: offset for one, offset in offsets.items() if offset < self.ends[one]}
        consumer.assign([KafkaPartition(*partition, offset) for partition, offset in offsets.items()])

    def _partitions(self) -> list[TopicPartition]:
        assert self._inspection.cluster is not None
        there = sorted(self._inspection.cluster.topics[self._topic].partitions)
        if unknown := [number for number in self._wanted if number not in there]:
            raise ConfigurationError(
                f"Topic {self._topic!r} has no partition {unknown[0]}: give 0 to {max(there, default=0)}."
            )
        return [TopicPartition(self._topic, number) for number in self._wanted or there]

    def _offsets(
        self, consumer: Consumer, logs: dict[TopicPartition, LogBounds], timeout_s: float
    ) -> dict[TopicPartition, int]:
        if isinstance(self._begin, LastRecords):
            count = self._begin.count
            return {partition: max(log.start, log.end - count) for partition, log in logs.items()}
        if self._begin == "latest":
            return {partition: log.end for partition, log in logs.items()}
        found = start_offsets(consumer, self._begin, logs, timeout_s)
        return {partition: self._within(partition, found[partition], log) for partition, log in logs.items()}

    def _within(self, partition: TopicPartition, offset: int, log: LogBounds) -> int:
        if offset == OFFSET_BEGINNING:
            return log.start
        nearest = min(max(offset, log.start), log.end)
        if nearest != offset:
            self._notice(
                f"{partition} holds offsets {log.start} to {log.end}: reading begins at offset {nearest}, "
                f"not {offset}"
            )
        return nearest

    def _on_error(self, error: KafkaError, message: Message) -> None:
        if error.code() in _OUT_OF_LOG:
            raise OffsetGapError(
                f"{message.topic()}[{message.partition()}]: retention deleted the next record to read: "
                f"start again with --from earliest, or with a later --from."
            )
        self._inspection.client_errors.append(error)

    def _report_errors(self, *, is_reading: bool) -> None:
        """Report each problem once until records arrive; librdkafka keeps retrying."""
        if is_reading:
            self._reported.clear()
        for error in self._inspection.client_errors:
            if error.name() not in self._reported:
                self._reported.add(error.name())
                self._notice(self._inspection.cleaner.text(describe_error(error)))
        self._inspection.client_errors.clear()
