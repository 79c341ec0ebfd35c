"""Where a log can be read again behind a batch that cannot be read.

The client tells where such a batch begins, at most, and never where it ends; and it passes some of them by
one offset. So fetches are tried from later and later offsets until one lies behind the batch, then halfway
between, until its end is found. With a consumer of its own, which joins no group and commits nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import failed_fetch
from ehkafka.endpoint.client import describe_error
from ehkafka.positions.log_bounds import log_bounds

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from ehkafka.records import TopicPartition

FIND_S: Final = 60.0
_POLL_S: Final = 0.1
# What a fetch has brought is there after so long, if a later request of the same connection was answered.
_QUIET_S: Final = 1.0
_SILENT: Final = "the client finds no record in it, and reports no error"


class NextReadable(NamedTuple):
    """The first offset that can be read: a record's, or the log's end.

    `passed` are the batches before it that cannot be read: where each was met, and why.
    """

    offset: int
    passed: tuple[tuple[int, str], ...]


class _Fetched(NamedTuple):
    """What a fetch brought first: a record or the log's end at `offset`; or `reason` why it brought none.

    Then `offset` is where the batch begins, as far as the client says, else None.
    """

    offset: int | None
    reason: str = ""


def next_readable(
    consumer: Consumer, partition: TopicPartition, offset: int, timeout_s: float = FIND_S
) -> NextReadable | None:
    """Return the first offset from this one on that can be read; None where that is not found in time.

    `consumer` has the properties of `offsets.blocking.reading_properties`; it is assigned. Raises
    `KafkaException` where the broker cannot be asked, or does not let the partition be read.
    """
    search = _Search(consumer, partition, time.monotonic() + timeout_s)
    passed: list[tuple[int, str]] = []
    while (found := search.fetch(offset)) is not None:
        if not found.reason:
            assert found.offset is not None
            return NextReadable(found.offset, tuple(passed))
        passed.append((offset, found.reason))
        behind = search.behind(offset, found)
        if behind is None:
            break
        offset = behind
    return None


class _Search:
    """Fetches of one partition, until a deadline."""

    def __init__(self, consumer: Consumer, partition: TopicPartition, ends_s: float) -> None:
        self._consumer = consumer
        self._partition = partition
        self._ends_s = ends_s
        self._end = self._log_end()

    def fetch(self, offset: int) -> _Fetched | None:
        """Return what is found from an offset on; None if that is not known in time."""
        if offset >= self._end:
            return _Fetched(self._end)
        self._consumer.assign([KafkaPartition(*self._partition, offset)])
        asks_at_s = time.monotonic() + _QUIET_S
        is_answered = False
        while time.monotonic() < self._ends_s:
            for message in self._consumer.consume(1, _POLL_S):
                if (found := _taken(message)) is not None:
                    return found
            if is_answered:
                return _Fetched(None, _SILENT)
            if time.monotonic() >= asks_at_s:
                # Answers of one connection come in the order of their requests.
                self._log_end()
                is_answered = True
        return None

    def _log_end(self) -> int:
        left_s = max(0.1, self._ends_s - time.monotonic())
        return log_bounds(self._consumer, [self._partition], left_s)[self._partition].end

    def behind(self, offset: int, first: _Fetched) -> int | None:
        """Return the first offset behind the batch that a fetch from `offset` has met."""
        inside, step = offset, 1
        while True:
            outside = min(inside + step, self._end)
            found = self.fetch(outside)
            if found is None:
                return None
            if not _is_same(found, first, offset):
                break
            inside, step = outside, 2 * step
        while outside - inside > 1:
            middle = (inside + outside) // 2
            found = self.fetch(middle)
            if found is None:
                return None
            if _is_same(found, first, offset):
                inside = middle
            else:
                outside = middle
        return outside


def _taken(message: Message) -> _Fetched | None:
    """Return what a message says; None for errors of no partition, which the client repairs itself."""
    error, failed = message.error(), failed_fetch(message)
    if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
        return _Fetched(message.offset())
    if failed is not None and failed.is_batch:
        return _Fetched(failed.offset, describe_error(error))
    if message.topic() is not None:
        raise KafkaException(error)
    return None


def _is_same(found: _Fetched, first: _Fetched, offset: int) -> bool:
    """Tell whether a later fetch has met the batch that the first one, from `offset`, met.

    In the midst of some the client says nothing: then it is taken for the same one.
    """
    if not found.reason:
        return False
    return found.offset is None or found.offset <= max(offset, first.offset or 0)
