"""Redrive: brings the records of a dead-letter topic back to where they came from.

Joins a group of its own whose commits are its progress: below a commit every letter is safe at home, or was
passed over. So an interrupted redrive goes on where it was, writing at most the last second's records again.
One thread, the caller's. It writes nothing before the targets were found and the group was seen empty, and
ends as soon as the group changes: two redrives at once would bring records home twice and out of order.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.checks.topic_reader import TopicReader
from ehkafka.endpoint.client import describe_error, open_consumer, open_producer
from ehkafka.endpoint.properties import consumer_properties, producer_properties
from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError, TopicNotFoundError
from ehkafka.intake.client_log import ClientLog
from ehkafka.intake.log_bounds import log_bounds
from ehkafka.records import TopicPartition, record_type
from ehkafka.recovery.fate import LetterFilter, fate_of, headers_back
from ehkafka.recovery.redrive_group import refuse_if_joined
from ehkafka.recovery.redrive_order import MergedLetters, SafeBelow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from confluent_kafka import Consumer, Message, Producer

    from ehkafka.checks.target import Target
    from ehkafka.intake.gap import LogBounds
    from ehkafka.records import Record
    from ehkafka.recovery.fate import Fate

BATCH_RECORDS = 500
POLL_S = 0.05
COMMIT_S = 1.0
# Beyond a session time-out: a group that lost a member a moment ago waits for that long.
JOIN_S = 60.0
LEAVE_S = 10.0
IN_FLIGHT_MAX = 5_000
SLOW_DOWN_S = 0.01


@dataclass(slots=True)
class RedriveCount:
    """What a redrive did, or would do. `to` counts the redriven by where they went."""

    redriven: int = 0
    # Letters that the filter left out, and records that are no letters.
    passed_over: int = 0
    foreign: int = 0
    to: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        """How many records were dealt with."""
        return self.redriven + self.passed_over + self.foreign

    def count(self, home: TopicPartition | None, *, is_letter: bool) -> None:
        """Count one record; `home` is None where it stays."""
        if home is not None:
            self.redriven += 1
            self.to[home] = self.to.get(home, 0) + 1
        elif is_letter:
            self.passed_over += 1
        else:
            self.foreign += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """One redrive of a dead-letter topic. `to` is another topic than each letter's own."""

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

    def home_of(self, record: Record, fate: Fate | None) -> TopicPartition | None:
        """Return where a letter's record goes, None where it stays."""
        if fate is None or not self.choose.takes(record, fate):
            return None
        return TopicPartition(self.to or fate.origin.topic, fate.origin.partition)

    def committed(self) -> dict[int, int]:
        """Return how far redrives of the group have come: next offsets by partition."""
        with self._consumer() as consumer:
            return self._committed(consumer, self._partitions(consumer))

    def plan(self) -> RedriveCount:
        """Return what `run` would do now; nothing is joined, written or committed."""
        count = RedriveCount()
        begin: dict[Any, Any] = {
            "*": "earliest",
            **{(self.topic, n): offset for n, offset in self.committed().items()},
        }
        reader = TopicReader(self.target, self.topic, begin=begin, timeout_s=self.timeout_s, to_end=True)
        with reader:
            for batch in reader.batches():
                for record in batch:
                    fate = fate_of(record)
                    count.count(self.home_of(record, fate), is_letter=fate is not None)
        return count

    def check_homes(self, homes: Iterable[TopicPartition]) -> None:
        """Refuse homes that are not there, before anything is written to the others."""
        with self._consumer() as consumer:
            there = consumer.list_topics(timeout=self.timeout_s).topics
        for home in sorted(homes):
            found = there.get(home.topic)
            if home.topic == self.topic:
                raise ConfigurationError(f"{home.topic!r} holds the dead letters itself: give another --to.")
            if found is None or found.error is not None or home.partition not in found.partitions:
                raise TopicNotFoundError(
                    f"There is no {home} on this broker, to which letters are to be brought back. Make it,"
                    " name another topic with --to, or leave these letters out with --origin-topic."
                )

    def run(self, told: Callable[[RedriveCount], object] = lambda _count: None) -> RedriveCount:
        """Bring home what the filter takes; `told` hears now and then how far it is.

        Raises `EndpointError`, `TopicNotFoundError` or `ConfigurationError`.
        """
        refuse_if_joined(self.target, self.group_name, self.timeout_s)
        with self._consumer() as consumer:
            run = _Run(self, consumer, told)
            run.join(self._partitions(consumer))
            return run.bring_home()

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        properties = consumer_properties(
            self.target.endpoint, self.group_name, self.target.consumer, assignor="default", instance_id=None
        )
        # Our own client: the end of a compacted log may be nothing that is delivered.
        consumer = open_consumer(
            {**properties, "enable.partition.eof": True}, logger=ClientLog(lambda _event: None)
        )
        try:
            yield consumer
        except KafkaException as error:
            raise EndpointError(f"The redrive ended: {describe_error(error.args[0])}.") from None
        finally:
            consumer.close()

    def _partitions(self, consumer: Consumer) -> list[int]:
        found = consumer.list_topics(timeout=self.timeout_s).topics.get(self.topic)
        if found is None or found.error is not None:
            raise TopicNotFoundError(f"There is no topic {self.topic!r} on this broker. Correct the name.")
        return sorted(found.partitions)

    def _committed(self, consumer: Consumer, numbers: list[int]) -> dict[int, int]:
        asked = [KafkaPartition(self.topic, number) for number in numbers]
        answers = consumer.committed(asked, timeout=self.timeout_s)
        return {answer.partition: answer.offset for answer in answers if answer.offset >= 0}


class _Run:
    """The state of one run."""

    def __init__(self, redrive: Redrive, consumer: Consumer, told: Callable[[RedriveCount], object]) -> None:
        self._redrive = redrive
        self._consumer = consumer
        self._told = told
        self._record = record_type("auto", event_hubs=redrive.target.endpoint.is_event_hubs)
        self._count = RedriveCount()
        self._assigned: set[int] = set()
        self._is_disturbed = False
        self._ends: dict[int, int] = {}
        self._unread: set[int] = set()
        self._paused: set[int] = set()
        self._merged = MergedLetters(())
        self._safe = SafeBelow({})
        self._in_flight = 0
        self._refused: EhkafkaError | None = None
        self._next_commit_s = 0.0

    def join(self, numbers: list[int]) -> None:
        """Become the group's one member, and begin where the last redrive was."""
        changed = self._on_change
        self._consumer.subscribe(
            [self._redrive.topic], on_assign=self._on_assign, on_revoke=changed, on_lost=changed
        )
        deadline_s = time.monotonic() + JOIN_S
        while not self._assigned:
            if time.monotonic() > deadline_s:
                raise EndpointError(
                    f"The group {self._redrive.group_name!r} gave this redrive nothing within {JOIN_S:.0f} s."
                    " Is another redrive running?"
                )
            self._hear(self._consumer.consume(1, POLL_S))
        self._refuse_company(len(numbers))
        names = [TopicPartition(self._redrive.topic, number) for number in numbers]
        logs = log_bounds(self._consumer, names, self._redrive.timeout_s)
        self._begin({name.partition: log for name, log in logs.items()})

    def _begin(self, logs: dict[int, LogBounds]) -> None:
        committed = self._redrive._committed(self._consumer, list(logs))  # noqa: SLF001 - one unit with it
        begins = {number: max(log.start, committed.get(number, 0)) for number, log in logs.items()}
        self._ends = {number: log.end for number, log in logs.items()}
        self._unread = {number for number, begin in begins.items() if begin < self._ends[number]}
        self._merged, self._safe = MergedLetters(self._unread), SafeBelow(begins)
        topic = self._redrive.topic
        self._consumer.assign([KafkaPartition(topic, number, begins[number]) for number in self._unread])

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        self._is_disturbed |= bool(self._assigned)
        self._assigned.update(partition.partition for partition in partitions)
        consumer.assign([])  # what is read, and from where, is told once all of it is known

    def _on_change(self, _consumer: Consumer, _partitions: list[KafkaPartition]) -> None:
        self._is_disturbed = True

    def _refuse_company(self, partitions: int) -> None:
        if self._is_disturbed or len(self._assigned) < partitions:
            raise ConfigurationError(
                f"The group {self._redrive.group_name!r} has another member: another redrive of"
                f" {self._redrive.topic!r} runs. Wait for its end: what it brings home is not brought again."
            )

    def bring_home(self) -> RedriveCount:
        """Read to the end, write, wait for the acknowledgements, commit."""
        properties = producer_properties(self._redrive.target.endpoint, {})
        producer = open_producer(properties, logger=ClientLog(lambda _event: None))
        try:
            while self._unread:
                self._turn(producer)
            self._wait_for_room(producer, 0)
            for number, end in self._ends.items():
                self._safe.ended(number, end)
        finally:
            # Also after Ctrl-C: what is acknowledged by now need not be written again.
            self._finish(producer)
        return self._count

    def _turn(self, producer: Producer) -> None:
        self._hear(self._consumer.consume(BATCH_RECORDS, POLL_S))
        self._refuse_company(len(self._assigned))
        for record, fate in self._merged.take():
            self._take_up(producer, record, fate)
        self._mind_pace()
        producer.poll(0)
        self._commit_if_due()

    def _hear(self, messages: list[Message]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                if self._ends:
                    record = self._record(message)  # type: ignore[arg-type]
                    self._read(record)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._end(int(message.partition() or 0))
            elif error.fatal() or error.code() in _HOPELESS:
                raise EndpointError(f"The dead letters cannot be read: {describe_error(error)}")

    def _read(self, record: Record) -> None:
        number, offset = record.partition(), record.offset()
        if number not in self._unread:
            return  # came after the redrive began
        if offset < self._ends[number]:
            self._merged.put(record, fate_of(record))
        if offset + 1 >= self._ends[number]:
            self._end(number)

    def _end(self, number: int) -> None:
        self._unread.discard(number)
        self._merged.finish(number)

    def _mind_pace(self) -> None:
        ahead = {number for number in self._unread if self._merged.is_ahead(number)}
        topic = self._redrive.topic
        if new := ahead - self._paused:
            self._consumer.pause([KafkaPartition(topic, number) for number in new])
        if over := self._paused - ahead:
            self._consumer.resume([KafkaPartition(topic, number) for number in over])
        self._paused = ahead

    def _take_up(self, producer: Producer, record: Record, fate: Fate | None) -> None:
        number, offset = record.partition(), record.offset()
        home = self._redrive.home_of(record, fate)
        self._safe.opened(number, offset)
        if home is None or fate is None:
            self._count.count(None, is_letter=fate is not None)
            self._safe.closed(number, offset)
            return
        self._wait_for_room(producer, IN_FLIGHT_MAX - 1)

        def delivered(error: KafkaError | None, _message: Message) -> None:
            self._in_flight -= 1
            if error is None:
                self._count.count(home, is_letter=True)
                self._safe.closed(number, offset)
            elif self._refused is None:
                self._refused = EndpointError(
                    f"The letter {number}@{offset} could not be written to {home}: {describe_error(error)}."
                    " All before it is safe; start the redrive again to go on with it."
                )

        producer.produce(
            home.topic,
            record.value(),
            record.key(),
            partition=home.partition,
            headers=list(headers_back(record, fate)),
            on_delivery=delivered,
        )
        self._in_flight += 1

    def _wait_for_room(self, producer: Producer, in_flight_max: int) -> None:
        while self._in_flight > in_flight_max:
            producer.poll(SLOW_DOWN_S)
            if self._in_flight > in_flight_max:
                self._hear(self._consumer.consume(1, 0.0))
            self._refuse_company(len(self._assigned))
            if self._refused is not None:
                raise self._refused
            self._commit_if_due()
        if self._refused is not None:
            raise self._refused

    def _finish(self, producer: Producer) -> None:
        producer.flush(LEAVE_S)
        if not self._is_disturbed:
            self._commit()
        self._told(self._count)

    def _commit_if_due(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_commit_s:
            self._next_commit_s = now_s + COMMIT_S
            self._commit()
            self._told(self._count)

    def _commit(self) -> None:
        if moved := self._safe.changed():
            topic = self._redrive.topic
            offsets: list[Any] = [KafkaPartition(topic, number, offset) for number, offset in moved.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)


_HOPELESS = {
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
