"""Reads topics and commits from outside, by clients that may lose their broker at any moment.

`Reader` reads as far as the log goes now, `Follower` all the time, as a user's reader does. Each keeps a sum
of every message by its offset, so that they can be compared in the end: see `Sums`.
"""

from __future__ import annotations

import sys
import threading
import time
import zlib
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ehkafka.progress.metadata import Unusable, decode
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PATIENCE_S = 60.0
READ_AT_ONCE_S = 0.1
CLOSE_S = 10.0
CLIENT = {"enable.auto.commit": False, "log_level": 0, "error_cb": lambda _error: None}
# Else a client that finds its place to be out of range goes on at the end, unseen.
ONLY_HERE = {"enable.partition.eof": True, "auto.offset.reset": "error", "group.id": "reads"}


class Sums:
    """What a reader has got of each partition, by offset: a sum of each message, 0 where there is none."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int], array[int]] = {}
        # Messages that came again, or behind a later one.
        self.repeated = 0

    def take(self, message: Any) -> None:
        """Note a message."""
        sums = self._sums.setdefault((message.topic(), message.partition()), array("I"))
        offset = message.offset()
        if offset < len(sums):
            self.repeated += 1
            return
        sums.extend([0] * (offset - len(sums)))
        sums.append(zlib.crc32(message.value() or b"") | 1)

    def differences(self, true: Sums) -> Counter[str]:
        """Return what this reader has seen otherwise than another one that has read all in the end."""
        found = Counter({"repeated": self.repeated})
        nothing = array("I")
        # What only this one has seen may be all that its partition has: aborted.
        for place in {**true._sums, **self._sums}:
            ours, theirs = self._sums.get(place, nothing), true._sums.get(place, nothing)
            both = max(len(ours), len(theirs))
            for mine, right in zip(_filled(ours, both), _filled(theirs, both), strict=True):
                if mine != right:
                    found["skipped" if not mine else "changed" if right else "aborted"] += 1
        return +found


def _filled(sums: array[int], length: int) -> array[int]:
    return sums + array("I", bytes((length - len(sums)) * sums.itemsize))


class Reader:
    """Reads topics as far as it is asked to, again and again. Aborted messages are left out.

    Its ends are those of the log: one that reads up to them waits for each transaction that is open.
    """

    def __init__(
        self, bootstrap: str, topics: Mapping[str, int], take: Callable[[Any], object] | None = None
    ) -> None:
        """`topics` are read with so many partitions each; `take` gets each message."""
        self._config = {**CLIENT, **ONLY_HERE, "bootstrap.servers": bootstrap}
        self._next = {(topic, number): 0 for topic, count in topics.items() for number in range(count)}
        self._take = take
        self.sums = Sums()
        # How often the client did not find its place.
        self.resets = 0
        self._open()

    def _open(self) -> None:
        self._ends = Consumer({**self._config, "isolation.level": "read_uncommitted"})
        self._consumer = Consumer(self._config)
        self._assign()

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(*place, start) for place, start in self._next.items()])

    def read(self) -> None:
        """Read all that the log has now."""
        for tries_left in (2, 1, 0):
            try:
                self._read()
                break
            except (AssertionError, KafkaException):
                # A client may never find a broker again that was away (librdkafka's issue 5301).
                if not tries_left:
                    raise
                self.close()
                self._open()

    def _read(self) -> None:
        ends = {place: patiently(self._end, place) for place in self._next}

        def left() -> list[tuple[str, int]]:
            return [place for place, end in ends.items() if self._next[place] < end]

        wait_until(
            lambda: not left(),
            lambda: f"read to {[(place, self._next[place], ends[place]) for place in left()]}",
            PATIENCE_S,
            meanwhile=self._consume,
        )

    def _consume(self) -> None:
        for message in self._consumer.consume(1000, READ_AT_ONCE_S):
            self._read_one(message)

    def close(self) -> None:
        """Close both clients."""
        close_client(self._ends)
        close_client(self._consumer)

    def _end(self, place: tuple[str, int]) -> int:
        end: int = self._ends.get_watermark_offsets(TopicPartition(*place), timeout=5.0)[1]
        return end

    def _read_one(self, message: Any) -> None:
        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            self._next[place] = message.offset() + 1
            self.sums.take(message)
            if self._take is not None:
                self._take(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # Behind it may be what ends a transaction, which is no message.
            self._next[place] = max(self._next[place], message.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self.resets += 1
            self._assign()


class Follower:
    """Reads topics all the time on a thread of its own, by one client that is never replaced."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int]) -> None:
        self.sums = Sums()
        self._is_over = threading.Event()
        self._consumer = Consumer({**CLIENT, **ONLY_HERE, "bootstrap.servers": bootstrap})
        places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self._consumer.assign([TopicPartition(*place, 0) for place in places])
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)
        # What it could not go on from, one for each kind of error.
        self.errors: set[str] = set()
        self._thread.start()

    def _follow(self) -> None:
        while not self._is_over.is_set():
            for message in self._consumer.consume(1000, READ_AT_ONCE_S):
                error = message.error()
                if error is None:
                    self.sums.take(message)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.errors.add(str(error))

    def close(self) -> None:
        """End the thread, then the client."""
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        close_client(self._consumer)


class Commit(NamedTuple):
    """What a group says of a partition: all below is finished, and so are these ranges."""

    next_offset: int
    finished: tuple[tuple[int, int], ...]
    # Why its text says nothing, where it has one.
    problem: str = ""

    def covers(self, offset: int) -> bool:
        """Tell whether a record counts as finished."""
        return offset < self.next_offset or any(start <= offset < end for start, end in self.finished)

    def offsets_from(self, checked: int) -> Iterator[int]:
        """Yield what is finished, without what is below `checked`."""
        yield from range(checked, self.next_offset)
        for start, end in self.finished:
            yield from range(start, end)


class Commits:
    """Reads the commits of a group; an offset that a transaction has not decided is waited for."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self._config = {**CLIENT, "bootstrap.servers": bootstrap, "group.id": group}
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._consumer = Consumer(self._config)

    def read(self) -> list[Commit]:
        """Return what each partition's commit says now."""
        try:
            places = patiently(self._committed)
        except KafkaException:  # see `Reader.read`
            self.close()
            self._consumer = Consumer(self._config)
            places = patiently(self._committed)
        return [self._commit(place) for place in places]

    def close(self) -> None:
        """Close the client."""
        close_client(self._consumer)

    def _committed(self) -> list[TopicPartition]:
        places = self._consumer.committed(self._places, timeout=10.0)
        for place in places:
            if place.error is not None:
                raise KafkaException(place.error)
        return places

    @staticmethod
    def _commit(place: TopicPartition) -> Commit:
        return commit_of(place.offset, place.metadata or "")


def commit_of(next_offset: int, text: str) -> Commit:
    """Return what a commit says; one by hand has no text."""
    metadata = decode(text, next_offset)
    if isinstance(metadata, Unusable):
        return Commit(max(next_offset, 0), (), f"{metadata.value}: {text!r}" if text else "")
    return Commit(next_offset, tuple(metadata.ranges.finished))


def close_client(client: Consumer) -> None:
    """Close a client that has read all; leave one whose `close` does not return.

    librdkafka's close has no time-out, and has been seen to wait without end after a broker was killed.
    """
    closing = threading.Thread(target=client.close, name="close", daemon=True)
    closing.start()
    closing.join(CLOSE_S)
    if closing.is_alive():
        sys.stderr.write(f"left a client whose close had not returned after {CLOSE_S:g} s\n")


def patiently(ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a broker answers, which may be frozen, gone or on its way up."""
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask(*arguments)
        except KafkaException:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.2)
