"""The way to a group's offsets: reads logs and commits, and commits, without ever joining the group.

One thread at a time. It connects the way `ehkafka check` does, so that what is wrong is reported in the same
words.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.group import OutsideGroup, read_bounds, read_commits
from ehkafka.checks.inspection import CLOSE_S, Inspection, Overdue, close_within
from ehkafka.checks.reach import enter, reach_topic, reported
from ehkafka.checks.result import Problem
from ehkafka.endpoint.client import check_client_version, describe_error, open_admin
from ehkafka.endpoint.properties.layers import admin_properties
from ehkafka.endpoint.silent import SILENT
from ehkafka.errors import ConfigurationError, EndpointError, GroupInUseError
from ehkafka.offsets.apart import next_readable_apart
from ehkafka.offsets.blocking import READ_S, blocking_records, reading_properties
from ehkafka.offsets.members import similar_groups
from ehkafka.offsets.view import PartitionView
from ehkafka.positions.log_bounds import log_bounds, start_offsets
from ehkafka.positions.same_log import Recognised, judged
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.positions.witness import recognise, witness_properties
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import Unusable, decode, facts_of, moved
from ehkafka.progress.saving import EVENT_HUBS_METADATA_BYTES_MAX, KAFKA_METADATA_BYTES_MAX
from ehkafka.records import TopicPartition
from ehkafka.wording import seconds
from ehkafka.wording.line import names, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka import Consumer

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.checks.target import Target
    from ehkafka.offsets.blocking import Blocking
    from ehkafka.positions.gap import LogBounds
    from ehkafka.positions.next_readable import NextReadable
    from ehkafka.positions.start import Start

    # Makes a reader's properties of a client's.
    Properties = Callable[[Mapping[str, Any]], dict[str, Any]]

# For a hint.
LISTING_S = 3.0
# How a broker answers a commit from outside to a group that has members.
LIVE = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
}


class GroupOffsets:
    """A group's offsets on one topic; opened and closed as a context manager.

    - `target` (required): the endpoint and the group, as `ehkafka.checks.target.Target`.
    - `topic` (required): its name.
    - `timeout_s` (seconds, default `10.0`): how long each question to the broker may take.

    Entering raises `ConfigurationError`, `EndpointError` or `TopicNotFoundError`, every method
    `EndpointError`.
    """

    def __init__(self, target: Target, topic: str, *, timeout_s: float = 10.0) -> None:
        if not target.group:
            raise ConfigurationError("No group is given: name the group with --group, or an app with --app.")
        self.group = target.group
        self.topic = topic
        self.target = target
        self.timeout_s = timeout_s
        self.partitions: tuple[int, ...] = ()
        self._inspection = Inspection(target, timeout_s)

    @property
    def where(self) -> str:
        """Namespace, topic and group, for messages."""
        return f"{self.target.endpoint.name}, topic {self.topic}, group {self.group}"

    @property
    def text_bytes_max(self) -> int:
        """Inner: how long a commit's text may be."""
        is_event_hubs = self.target.endpoint.is_event_hubs
        return EVENT_HUBS_METADATA_BYTES_MAX if is_event_hubs else KAFKA_METADATA_BYTES_MAX

    def __enter__(self) -> Self:
        check_client_version()
        self.target.endpoint.prepare_topics([self.topic])
        properties = self.target.client_properties()
        # A look from outside is no static member.
        properties.pop("group.instance.id", None)
        self._inspection.use(properties)
        enter(self._inspection, self._connect)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._inspection.close()

    def views(self) -> dict[int, PartitionView]:
        """Return where the group stands in each partition."""
        commits, logs = self._commits(), self._logs()
        return {number: _view(number, logs[number], commits[number]) for number in self.partitions}

    def _logs(self) -> dict[int, LogBounds]:
        self._inspection.begin_step()
        try:
            found = read_bounds(self._inspection, self.topic)
        except Problem as problem:
            raise reported(self._inspection, problem) from None
        return {partition.partition: log for partition, log in found.items()}

    @cached_property
    def without_commits(self) -> str:
        """Inner: what to tell where the group has no commit in any partition. Asks the broker, once."""
        similar = similar_groups(self.target, self.group, min(LISTING_S, self.timeout_s))
        hint = f" Groups of a similar name: {names(similar)}." if similar else ""
        return f"No group {plain(self.group)} has commits on topic {plain(self.topic)}: check the name.{hint}"

    def blocking(self, views: Mapping[int, PartitionView]) -> dict[int, Blocking]:
        """Return the record that each commit waits for, of partitions with something left to handle.

        - `views` (required): what `views()` returned.
        """
        waits = {number: view.next_offset for number, view in views.items()}
        return self.records_at({number: at for number, at in waits.items() if at is not None})

    def records_at(
        self, offsets: Mapping[int, int], properties: Properties = reading_properties
    ) -> dict[int, Blocking]:
        """Inner: return the first record at or above an offset of each partition, where there is one.

        `properties` are those of the consumer that reads them.
        """
        asked = {TopicPartition(self.topic, number): offset for number, offset in offsets.items()}
        if not asked:
            return {}
        with self._reader(properties, "which records these are") as consumer:
            found = blocking_records(consumer, asked, min(READ_S, self.timeout_s))
        return {partition.partition: one for partition, one in found.items()}

    def next_readable(self, partition: int, offset: int) -> NextReadable | None:
        """Inner: return where the log can be read again from an offset on; None if not found in time."""
        with self._asking("what can be read there"):
            properties = reading_properties(self._inspection.properties)
            return next_readable_apart(properties, TopicPartition(self.topic, partition), offset)

    def commits(self) -> dict[int, tuple[int | None, str]]:
        """Return the group's commits with their metadata, None for a partition without one."""
        return {number: (_offset(one), one.metadata or "") for number, one in self._commits().items()}

    def offsets_at(self, start: Start, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets of a start position, by partition.

        - `start` (required): `"earliest"`, `"latest"`, an offset, an aware datetime, or a timedelta back.
        - `partitions` (required): the numbers of those to look at.
        """
        asked = [TopicPartition(self.topic, number) for number in partitions]
        with self._asking("where that is"):
            found = start_offsets(self._consumer, start, asked, self.timeout_s)
            begun = [one for one in asked if found[one] == OFFSET_BEGINNING]
            logs = log_bounds(self._consumer, begun, self.timeout_s) if begun else {}
        found |= {one: log.start for one, log in logs.items()}
        return {one.partition: offset for one, offset in found.items()}

    def other_logs(self, checkpoints: Mapping[int, Checkpoint]) -> dict[int, str]:
        """Inner: return which logs are not those that our mirror's checkpoints were written for, and why."""
        if not checkpoints:
            return {}
        named = {TopicPartition(self.topic, n): one for n, one in checkpoints.items()}
        ids = TopicIds(partial(open_admin, admin_properties(self.target.endpoint), logger=SILENT))
        found = Recognised({one: known.facts for one, known in named.items()})
        found.ids = ids.ask(found.named())
        reader = partial(self._reader, witness_properties, "whether the log is the mirror's")
        recognise(found, reader, bounds="all", timeout_s=self.timeout_s)
        judgements = judged(named, found)
        return {one.partition: reason for one, (is_same, reason) in judgements.items() if not is_same}

    def commit(self, positions: Mapping[int, int], texts: Mapping[int, str] | None = None) -> None:
        """Commit from outside of the group, all partitions in one request, and wait for the answer.

        Facts about the log in the commits before are dropped: a move of a group means the log of now.

        - `positions` (required): by partition, the offset of the next record to be read.
        - `texts` (default `None`): by partition, the commit's metadata. None: a mark that it was moved, so
          that all from there on is handled, and the facts about the group in the commits before.

        Raises `GroupInUseError` where the broker says that the group has members, `EndpointError` for any
        other refusal. What was not refused is committed.
        """
        if texts is None:
            before = self._commits()
            facts = {n: facts_of(before[n].offset, before[n].metadata) for n in positions}
            texts = {number: moved(offset, facts[number].of_no_log()) for number, offset in positions.items()}
        wanted = {
            TopicPartition(self.topic, number): Position(0, offset, None, texts[number])
            for number, offset in positions.items()
        }
        self._inspection.begin_step()
        with OutsideGroup(self._inspection, self._inspection.properties) as outside:
            try:
                refusals = outside.commit(wanted)
            except Overdue:
                raise EndpointError(
                    f"{self.where}: the broker did not answer the commit within {seconds(self.timeout_s)}, "
                    "and may or may not have stored it. Before you try again, look at the commits: ehkafka "
                    "lag"
                ) from None
        if refusals:
            raise self._refused(refusals)

    @property
    def _consumer(self) -> Consumer:
        return self._inspection.consumer()

    def _connect(self) -> None:
        reach_topic(self._inspection, self.topic)
        assert self._inspection.cluster is not None
        self.partitions = tuple(sorted(self._inspection.cluster.topics[self.topic].partitions))

    def _all(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in self.partitions]

    def _commits(self) -> dict[int, KafkaPartition]:
        self._inspection.begin_step()
        asked = [KafkaPartition(*partition) for partition in self._all()]
        try:
            found = read_commits(self._inspection, self._consumer, asked)
        except Problem as problem:
            raise reported(self._inspection, problem) from None
        return {one.partition: one for one in found}

    def _refused(self, refusals: Mapping[int, KafkaError]) -> EndpointError | GroupInUseError:
        numbers = ", ".join(map(str, sorted(refusals)))
        error = next(iter(refusals.values()))
        if error.code() in LIVE:
            return GroupInUseError(
                f"{self.where}: the broker refused to change the commits of partitions {numbers}, because"
                f" the group has members ({error.name()}). No commit was changed."
                " Stop all consumers of the group, wait until their session has ended, and try again."
            )
        text = self._inspection.cleaner.text(describe_error(error))
        return EndpointError(f"{self.where}: the broker did not commit partitions {numbers}: {text}")

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            text = self._inspection.cleaner.text(describe_error(error.args[0]))
            raise EndpointError(f"{self.where}: the broker does not report {what}: {text}") from None

    @contextmanager
    def _reader(self, properties: Properties, what: str) -> Iterator[Consumer]:
        consumer = self._inspection.open(properties(self._inspection.properties))
        try:
            with self._asking(what):
                yield consumer
        finally:
            close_within(consumer, CLOSE_S)


def _offset(commit: KafkaPartition) -> int | None:
    return commit.offset if commit.offset >= 0 else None


def _view(partition: int, log: LogBounds, commit: KafkaPartition) -> PartitionView:
    offset = _offset(commit)
    decoded = decode(commit.metadata or "", commit.offset)
    if isinstance(decoded, Unusable):
        return PartitionView(partition, log, offset)
    # A log that was cut may end before what was finished of it.
    finished = tuple((start, min(end, log.end)) for start, end in decoded.ranges.finished if start < log.end)
    return PartitionView(partition, log, offset, finished, True, decoded.ranges.is_complete)
