"""Redrive: brings the records of a dead-letter topic back to where they came from.

A group of its own commits the progress: each dead letter below its commits is written, or was passed over.
So an interrupted redrive continues where it was, and writes at most the last second's records again.
A redrive writes nothing before it has found the targets and has seen that the group is empty.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.topic_reader import TopicReader
from ehkafka.endpoint.client import describe_error, open_consumer
from ehkafka.endpoint.silent import SILENT
from ehkafka.errors import ConfigurationError, EndpointError, TopicNotFoundError
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.offsets.group import GroupOffsets
from ehkafka.offsets.members import members_of
from ehkafka.outputs.output import EntrySource, Output
from ehkafka.records import TopicPartition
from ehkafka.recovery.letters.letter import LetterFilter, headers_back, letter_origin
from ehkafka.recovery.letters.target import TOO_LARGE_ADVICE
from ehkafka.redrive.order import RedriveCount, as_written
from ehkafka.run.at_least_once import output_sender
from ehkafka.run.options import AppOptions
from ehkafka.settings import Settings
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import Consumer

    from ehkafka.checks.target import Target
    from ehkafka.outputs.output import OutputRefusedError
    from ehkafka.redrive.order import Letter

COMMIT_S = 1.0
# The longest wait for an assignment, since a group that lost a member waits for a session time-out; and for
# an acknowledgement, since a partition may have to change its leader.
SILENT_S = 60.0
# For the last acknowledgements, after an error and after Ctrl-C.
EXIT_S = 2.0
POLL_S = 2e-3
GO_ON = "All before it are written; start the redrive again to continue with it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """One redrive of a dead-letter topic: its letters go back to where they came from.

    - `target` (required): the endpoint, as `ehkafka.checks.target.Target`.
    - `topic` (required): the dead-letter topic.
    - `choose` (default `LetterFilter()`): which letters; all by default.
    - `to` (default `None`): another topic to bring them to. `None`: each letter's own.
    - `group` (default `""`): the group whose commits are the progress. Empty: `<topic>.redrive`.
    - `timeout_s` (seconds, default `10.0`): how long each question to the broker may take.
    """

    target: Target
    topic: str
    choose: LetterFilter = field(default_factory=LetterFilter)
    to: str | None = None
    group: str = ""
    timeout_s: float = 10.0

    @property
    def group_name(self) -> str:
        """The group that keeps the progress."""
        return self.group or f"{self.topic}.redrive"

    @property
    def own_target(self) -> Target:
        """Inner: the endpoint with that group."""
        return replace(self.target, group=self.group_name, assignor="default", instance_id=None)

    def reader(self) -> TopicReader:
        """Inner: return a reader from the commits on. Raises `ConfigurationError` for one beyond its log."""
        with GroupOffsets(self.own_target, self.topic, timeout_s=self.timeout_s) as group:
            views = group.views()
        for number, view in views.items():
            if (view.committed or 0) > view.log.end:
                raise ConfigurationError(
                    f"The group {self.group_name!r} is ahead of the dead letters: its commit of "
                    f"{self.topic}[{number}] is {view.committed}, but the log ends at {view.log.end}. The "
                    f"topic was probably recreated: give another --group, which begins at the first dead "
                    f"letter."
                )
        begin: dict[Any, Any] = {(self.topic, number): view.committed or 0 for number, view in views.items()}
        return TopicReader(
            self.target, self.topic, begin=begin, group=self.group_name, timeout_s=self.timeout_s, to_end=True
        )

    def home_of(self, letter: Letter, count: RedriveCount) -> TopicPartition | None:
        """Inner: return where a dead letter's record goes; None where it stays, and then it is counted."""
        record, origin = letter
        if origin is None:
            count.foreign += 1
        elif self.choose.takes(record, origin):
            return TopicPartition(self.to or origin.partition.topic, origin.partition.partition)
        else:
            count.passed_over += 1
        return None

    def plan(self) -> RedriveCount:
        """Return what `run` would do now; nothing is joined, written or committed."""
        count = RedriveCount()
        with self.reader() as reader:
            for record in chain.from_iterable(reader.batches()):
                if home := self.home_of((record, letter_origin(record)), count):
                    count.to[home] += 1
        return count

    def run(
        self,
        report: Callable[[RedriveCount], object] = lambda _count: None,
        *,
        planned: RedriveCount | None = None,
    ) -> RedriveCount:
        """Bring home what the filter takes. Writes nothing where a home is not there.

        - `report` (default: does nothing): called now and then with the count so far.
        - `planned` (default `None`): what `plan` returned. None: the dead letters are read twice.

        Raises `EndpointError`, `TopicNotFoundError` or `ConfigurationError`.
        """
        homes = (planned or self.plan()).to
        properties = self.own_target.client_properties()
        consumer = open_consumer(properties, logger=SILENT)
        try:
            self._check_homes(homes, consumer.list_topics(timeout=self.timeout_s).topics)
            # Before joining, which would end the other redrive, too; where the broker says who is there.
            if members := members_of(self.target, self.group_name, self.topic, self.timeout_s):
                raise ConfigurationError(
                    f"The group {self.group_name!r} has {len(members)} member(s): another redrive runs. "
                    f"Wait until that redrive ends, or give another --group, which begins at the first "
                    f"dead letter."
                )
            return RedriveRun(self, consumer, report).bring_home()
        except KafkaException as error:
            raise EndpointError(f"The redrive ended: {ended(describe_error(error.args[0]))}") from None
        finally:
            consumer.close()

    def _check_homes(self, homes: Iterable[TopicPartition], there: dict[str, Any]) -> None:
        """Refuse homes that are not there, before anything is written to the others."""
        for home in sorted(homes):
            found = there.get(home.topic)
            if home.topic == self.topic:
                raise ConfigurationError(
                    f"topic {home.topic!r} contains the dead letters itself: give another --to."
                )
            if found is None or found.error is not None or home.partition not in found.partitions:
                raise TopicNotFoundError(
                    f"There is no {home} on this broker, but dead letters came from it. Create the topic, "
                    f"name another topic with --to, or choose other dead letters with --origin-topic."
                )


class Homecoming(EntrySource):
    """One dead letter whose record is sent home, and where it is counted once it is safe there."""

    orders_partition = True
    home: TopicPartition
    counts: RedriveCount

    def acknowledged(self, _written: object = None) -> None:
        """Count it. On the sender's thread."""
        self.counts.to[self.home] += 1


class RedriveRun:
    """Becomes the group's one member, writes dead letters home, commits what is safe there.

    On the caller's thread; the sender has its own, and keeps each until the broker has acknowledged it. It
    ends as soon as the group changes: two redrives at once would bring records home twice and out of order.
    """

    def __init__(
        self, redrive: Redrive, consumer: Consumer, report: Callable[[RedriveCount], object]
    ) -> None:
        """`consumer` is the group's member, and commits; another client reads."""
        self._redrive = redrive
        self._consumer = consumer
        self._report = report
        self._count = RedriveCount()
        # What no waiting fixes. Appended by the sender's thread.
        self._problems: list[BaseException] = []
        settings = Settings(group=redrive.group_name, start="earliest", consumer=redrive.target.consumer)
        options = AppOptions(endpoint=redrive.target.endpoint, settings=settings, specs=())
        self._sender = output_sender(options, lambda _event: None, self._problems.append)
        # How many partitions each assignment had; 0 where they were taken away.
        self._assigned: list[int] = []
        # By partition: the offset after the last dead letter that was dealt with, and the committed one.
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        # The sender's outputs name by these the offsets that are not acknowledged.
        self._epochs: dict[TopicPartition, Epoch] = {}
        # How many were safe at the last look, and when that last grew, or nothing waited for an answer.
        self._safe, self._moved_s = 0, time.monotonic()
        self._next_commit_s = 0.0

    def bring_home(self) -> RedriveCount:
        """Read to the end, write, wait for the acknowledgements, commit."""
        self._join()
        with self._redrive.reader() as reader:
            self._committed, self._next = reader.begins, reader.begins.copy()
            self._epochs = {partition: Epoch(partition, 0, {}) for partition in reader.begins}
            self._check()
            self._sender.start()
            try:
                for letter in as_written(reader):
                    if letter is None:
                        self._check()
                    else:
                        self._take_up(letter)
                while self._sender.outputs.count():
                    self._check()
                # Offsets without a record, such as those at the end of a transaction.
                self._next = {one: max(end, self._next[one]) for one, end in reader.ends.items()}
            except BaseException as first:
                # Also after Ctrl-C: what is acknowledged by then need not be written again.
                try:
                    self._end()
                except KafkaException as failed:
                    first.add_note(f"The last commit also failed: {ended(describe_error(failed.args[0]))}")
                raise
            self._end()
        return self._count

    def _end(self) -> None:
        self._sender.stop(EXIT_S)
        self._commit()
        self._report(self._count)

    def _join(self) -> None:
        def on_assign(consumer: Consumer, partitions: list[KafkaPartition]) -> None:
            self._assigned.append(len(partitions))
            consumer.assign([])

        def lost(*_: object) -> None:
            self._assigned.append(0)

        self._consumer.subscribe([self._redrive.topic], on_assign=on_assign, on_revoke=lost, on_lost=lost)
        until_s = time.monotonic() + SILENT_S
        while not self._assigned and time.monotonic() < until_s:
            self._poll()

    def _poll(self) -> None:
        """Stay in the group, and hear of its changes."""
        message = self._consumer.poll(POLL_S)
        error = None if message is None else message.error()
        if error is not None and (error.fatal() or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED):
            raise KafkaException(error)

    @property
    def _is_alone(self) -> bool:
        return self._assigned == [len(self._next)]

    def _take_up(self, letter: Letter) -> None:
        """Send a dead letter's record home, or pass it over."""
        (record, origin), outputs = letter, self._sender.outputs
        partition = TopicPartition(record.topic(), record.partition())
        home = self._redrive.home_of(letter, self._count)
        if home is not None and origin is not None:
            while not outputs.has_room():
                self._check()
            one = Homecoming((record, record.key(), 0, self._epochs[partition]))
            one.home, one.counts = home, self._count
            headers = headers_back(record, origin)
            output = Output(self, one, home.topic, record.value(), record.key(), headers, home.partition)
            outputs.put(one, output, output.size, waits=False)
        self._next[partition] = record.offset() + 1

    def judge(self, output: Output, error: OutputRefusedError, *_: object) -> None:
        """End the redrive: a dead letter is refused although it was sent alone. No commit passes it."""
        assert isinstance(output.source, Homecoming)
        letter = output.source[MESSAGE]
        why = f"{error}; {TOO_LARGE_ADVICE}" if error.is_too_large else str(error)
        text = f"The dead letter {letter.partition()}@{letter.offset()} could not be written to"
        self._problems.append(EndpointError(f"{text} {output.source.home}: {ended(why)} {GO_ON}"))

    def _check(self) -> None:
        """Raise what ends the redrive, and commit now and then."""
        self._poll()
        if self._problems:
            raise self._problems[0]
        if not self._is_alone:
            raise ConfigurationError(
                f"The group {self._redrive.group_name!r} does not give this redrive all partitions of "
                f"{self._redrive.topic!r}: another redrive probably runs. Wait until the other redrive ends, "
                f"then start again: dead letters that were written are not written again."
            )
        now_s = time.monotonic()
        if now_s < self._next_commit_s:
            return
        self._next_commit_s = now_s + COMMIT_S
        if self._count.redriven > self._safe or not self._sender.outputs.count():
            self._safe, self._moved_s = self._count.redriven, now_s
        elif now_s - self._moved_s > SILENT_S:
            why = ended(self._sender.problem or "the broker does not answer")
            raise EndpointError(f"No dead letter was written within {SILENT_S:.0f} s: {why} {GO_ON}")
        self._commit()
        self._report(self._count)

    def _commit(self) -> None:
        """Commit what is below the first dead letter that is not safe."""
        unsafe = self._sender.outputs.lowest()
        safe = self._next | {epoch.partition: offset for epoch, offset in unsafe.items()}
        moved = [KafkaPartition(*one, at) for one, at in safe.items() if at > self._committed[one]]
        if moved and self._is_alone:
            self._consumer.commit(offsets=moved, asynchronous=False)
            self._committed = safe
