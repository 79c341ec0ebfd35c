"""The run of a redrive: becomes the group's one member, reads to the end, writes home, commits what is safe.

On the caller's thread; the sender has its own. It never commits past a letter that is not acknowledged at
home, and ends as soon as the group changes: two redrives at once would bring records home twice and out of
order.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import failed_fetch
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.events.partition import way_past
from ehkafka.records import record_type
from ehkafka.recovery.letters.origin import headers_back, letter_origin
from ehkafka.redrive.home import Homecoming, WayHome
from ehkafka.redrive.order import MergedLetters, RedriveCount

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, Message

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
SLOW_DOWN_S = 2e-3
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
        self._paused: set[int] = set()
        self._merged = MergedLetters(())
        # By partition: what is behind the last letter that was dealt with, what is committed, and the letters
        # on their way home, the first of which is not safe yet.
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._open: dict[int, deque[Homecoming]] = {}
        self._way = WayHome(redrive.target, lambda one: self._count.count(one.home, is_letter=True))
        self._next_commit_s = 0.0
        self._moved_s = time.monotonic()

    def join(self) -> None:
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
        offsets = self._redrive.to_read(self._consumer)
        self._refuse_company(len(offsets))
        self._ends = {number: its.stop for number, its in offsets.items()}
        self._next = {number: its.start for number, its in offsets.items()}
        self._committed = self._next.copy()
        self._open = {number: deque() for number in offsets}
        unread = [number for number, its in offsets.items() if its]
        self._merged = MergedLetters(unread)
        topic = self._redrive.topic
        self._consumer.assign([KafkaPartition(topic, number, self._next[number]) for number in unread])

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
            while self._merged.unfinished:
                self._turn()
                self._check_silence()
            self._wait_until(self._way.is_empty)
            # Whatever offsets the log does not hold.
            self._next = {number: max(end, self._next[number]) for number, end in self._ends.items()}
        finally:
            # Also after Ctrl-C: what is acknowledged by now need not be written again.
            self._way.stop()
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
        self._check_open()

    def _check_silence(self) -> None:
        """Give up where letters are there and none comes: of some broken batches the client says nothing."""
        if (silent := self._merged.unfinished - self._paused) and time.monotonic() - self._moved_s > SILENT_S:
            raise EndpointError(
                f"Nothing of {self._redrive.topic}[{min(silent)}] came within {SILENT_S:.0f} s, though there "
                "is something. See whether its leader is up; else a batch there is broken. Letters that were "
                "brought back are not brought back twice."
            )

    def _take(self, messages: list[Message]) -> None:
        if messages or self._paused >= self._merged.unfinished:
            self._moved_s = time.monotonic()
        for message in messages:
            error = message.error()
            if error is None:
                if self._ends:
                    record = self._record(message)  # type: ignore[arg-type]
                    self._read(record)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._merged.finish(int(message.partition() or 0))
            elif (failed := failed_fetch(message)) is not None and failed.is_batch:
                past = way_past(failed.partition, failed.offset, self._redrive.group_name)
                raise EndpointError(f"{failed.text()} The redrive ends here. The way past it: {past}")
            elif error.fatal() or error.code() in HOPELESS:
                raise EndpointError(f"The dead letters cannot be read: {describe_error(error)}")

    def _read(self, record: Record) -> None:
        number, offset = record.partition(), record.offset()
        if number not in self._merged.unfinished:
            return  # came after the redrive began
        if offset < self._ends[number]:
            self._merged.put(record, letter_origin(record))
        if offset + 1 >= self._ends[number]:
            self._merged.finish(number)

    def _mind_pace(self) -> None:
        ahead = self._merged.ahead()
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
        else:
            self._wait_until(self._way.has_room)
            one = self._way.send(record, headers_back(record, origin), home)
            self._open[record.partition()].append(one)
        self._next[record.partition()] = record.offset() + 1

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            time.sleep(SLOW_DOWN_S)
            self._check_open()
            if not is_so():
                self._take(self._consumer.consume(1, 0.0))
                self._mind_pace()
            self._refuse_company(len(self._assigned))

    def _check_open(self) -> None:
        """Raise what ends the redrive, and commit now and then."""
        for ours in self._open.values():
            while ours and ours[0].is_safe:
                ours.popleft()
            if ours:
                self._way.check(ours[0])
        if time.monotonic() >= self._next_commit_s:
            self._next_commit_s = time.monotonic() + COMMIT_S
            self._commit()
            self._report(self._count)

    def _commit(self) -> None:
        """Commit what is below the first letter that is not safe."""
        safe = self._next.copy()
        for number, ours in self._open.items():
            if first := next((one for one in ours if not one.is_safe), None):
                safe[number] = first.letter.offset()
        moved = {number: offset for number, offset in safe.items() if offset > self._committed[number]}
        if moved:
            topic = self._redrive.topic
            offsets: list[Any] = [KafkaPartition(topic, number, offset) for number, offset in moved.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)
            self._committed.update(moved)
