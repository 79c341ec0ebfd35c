"""The run of a redrive: becomes the group's one member, reads to the end, writes home, commits what is safe.

On the caller's thread; the sender has its own. It never commits past a letter that is not acknowledged at
home, and ends as soon as the group changes: two redrives at once would bring records home twice and out of
order.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import failed_fetch
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.events.partition import way_past
from ehkafka.records import record_type
from ehkafka.recovery.letters.origin import headers_back, letter_origin
from ehkafka.redrive.home import WayHome
from ehkafka.redrive.order import MergedLetters, RedriveCount, SafeBelow

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, Message

    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import Record
    from ehkafka.recovery.letters.origin import LetterOrigin
    from ehkafka.redrive.redrive import Redrive

BATCH_RECORDS = 500
POLL_S = 0.05
COMMIT_S = 1.0
# Beyond a session time-out: a group that lost a member a moment ago waits for that long.
JOIN_S = 60.0
# Beyond what a leader takes to move.
SILENT_S = 60.0
SLOW_DOWN_S = 0.01
# Errors of a consumer that no waiting fixes.
HOPELESS = {
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}


class RedriveRun:
    """The state of one run."""

    def __init__(
        self, redrive: Redrive, consumer: Consumer, report: Callable[[RedriveCount], object]
    ) -> None:
        self._redrive = redrive
        self._consumer = consumer
        self._report = report
        self._record = record_type("auto", event_hubs=redrive.target.endpoint.is_event_hubs)
        self._count = RedriveCount()
        self._assigned: set[int] = set()
        self._is_disturbed = False
        self._ends: dict[int, int] = {}
        self._unread: set[int] = set()
        self._paused: set[int] = set()
        self._merged = MergedLetters(())
        self._safe = SafeBelow({})
        self._way = WayHome(redrive.target)
        self._next_commit_s = 0.0
        self._moved_s = time.monotonic()

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
                    f"The group {self._redrive.group_name!r} assigned this redrive nothing within "
                    f"{JOIN_S:.0f} s. Is another redrive running?"
                )
            self._take(self._consumer.consume(1, POLL_S))
        self._refuse_company(len(numbers))
        self._begin(self._redrive.logs(self._consumer, numbers))

    def _begin(self, logs: dict[int, LogBounds]) -> None:
        begins = self._redrive.begins(self._consumer, logs)
        self._ends = {number: log.end for number, log in logs.items()}
        self._unread = {number for number, begin in begins.items() if begin < self._ends[number]}
        self._merged, self._safe = MergedLetters(self._unread), SafeBelow(begins)
        topic = self._redrive.topic
        self._consumer.assign([KafkaPartition(topic, number, begins[number]) for number in self._unread])

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        self._is_disturbed |= bool(self._assigned)
        self._assigned.update(partition.partition for partition in partitions)
        consumer.assign([])  # what is read, and from where, becomes known when all of it is

    def _on_change(self, _consumer: Consumer, _partitions: list[KafkaPartition]) -> None:
        self._is_disturbed = True

    def _refuse_company(self, partitions: int) -> None:
        if self._is_disturbed or len(self._assigned) < partitions:
            raise ConfigurationError(
                f"The group {self._redrive.group_name!r} has another member: another redrive of"
                f" {self._redrive.topic!r} runs. Wait for its end: what it writes back is not written again."
            )

    def bring_home(self) -> RedriveCount:
        """Read to the end, write, wait for the acknowledgements, commit."""
        self._way.start()
        try:
            while self._unread:
                self._turn()
                self._check_silence()
            self._wait_until(self._way.is_empty)
            for number, end in self._ends.items():
                self._safe.ended(number, end)
        finally:
            # Also after Ctrl-C: what is acknowledged by now need not be written again.
            self._way.stop()
            self._note_safe(0.0)
            if not self._is_disturbed:
                self._commit()
            self._report(self._count)
        return self._count

    def _turn(self) -> None:
        self._take(self._consumer.consume(BATCH_RECORDS, POLL_S))
        self._refuse_company(len(self._assigned))
        for record, origin in self._merged.take():
            self._take_up(record, origin)
        self._mind_pace()
        self._take_answers(0.0)

    def _check_silence(self) -> None:
        """Give up where letters are there and none comes: of some broken batches the client says nothing."""
        if (silent := self._unread - self._paused) and time.monotonic() - self._moved_s > SILENT_S:
            raise EndpointError(
                f"Nothing of {self._redrive.topic}[{min(silent)}] came within {SILENT_S:.0f} s, though there "
                "is something. See whether its leader is up; else a batch there is broken. Letters that were "
                "brought back are not brought back twice."
            )

    def _take(self, messages: list[Message]) -> None:
        if messages or self._paused >= self._unread:
            self._moved_s = time.monotonic()
        for message in messages:
            error = message.error()
            if error is None:
                if self._ends:
                    record = self._record(message)  # type: ignore[arg-type]
                    self._read(record)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._end(int(message.partition() or 0))
            elif (failed := failed_fetch(message)) is not None and failed.is_batch:
                past = way_past(failed.partition, failed.offset, self._redrive.group_name)
                raise EndpointError(f"{failed.text()} The redrive ends here. The way past it: {past}")
            elif error.fatal() or error.code() in HOPELESS:
                raise EndpointError(f"The dead letters cannot be read: {describe_error(error)}")

    def _read(self, record: Record) -> None:
        number, offset = record.partition(), record.offset()
        if number not in self._unread:
            return  # came after the redrive began
        if offset < self._ends[number]:
            self._merged.put(record, letter_origin(record))
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

    def _take_up(self, record: Record, origin: LetterOrigin | None) -> None:
        home = self._redrive.home_of(record, origin)
        if home is None or origin is None:
            self._count.count(None, is_letter=origin is not None)
            self._safe.passed(record.partition(), record.offset())
            return
        self._wait_until(self._way.has_room)
        self._safe.sent(record.partition(), record.offset(), home)
        self._way.send(record, headers_back(record, origin), home)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._take_answers(SLOW_DOWN_S)
            if not is_so():
                self._take(self._consumer.consume(1, 0.0))
            self._refuse_company(len(self._assigned))

    def _take_answers(self, timeout_s: float) -> None:
        self._note_safe(timeout_s)
        if (oldest := self._safe.oldest()) is not None:
            self._way.check(oldest)
        if time.monotonic() >= self._next_commit_s:
            self._next_commit_s = time.monotonic() + COMMIT_S
            self._commit()
            self._report(self._count)

    def _note_safe(self, timeout_s: float) -> None:
        for letter in self._way.take_safe(timeout_s):
            home = self._safe.came_home(letter.partition(), letter.offset())
            self._count.count(home, is_letter=True)

    def _commit(self) -> None:
        if moved := self._safe.changed():
            topic = self._redrive.topic
            offsets: list[Any] = [KafkaPartition(topic, number, offset) for number, offset in moved.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)
