"""Finds the next readable offset of a log after a batch that cannot be read.

The client tells where such a batch begins, at most, and never where it ends; and it passes some of them by
one offset. So fetches are tried from later and later offsets until one lies behind the batch, then halfway
between, until its end is found. With consumers of its own, which join no group and commit nothing: a new one
for each fetch, so that all it tells is of that one.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import failed_fetch
from ehkafka.endpoint.client import describe_error
from ehkafka.positions.client_fetches import ClientFetches, Silence
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, Message

    from ehkafka.records import TopicPartition

    OpenConsumer = Callable[[Mapping[str, Any]], Consumer]

FIND_S: Final = 60.0
_POLL_S: Final = 0.1
# So many fetches in a row must bring nothing. Each asks for twice as much: the last one for more than the
# largest batch that a broker takes, where a broker sends no more of a batch than was asked for.
_FETCHES: Final = 12
# Between two of them, where the client takes what it could not parse for an error.
_BACKOFF: Final = {"fetch.error.backoff.ms": 10}
_SILENT: Final = "the client finds no record in it, and reports no error"


class NextReadable(NamedTuple):
    """The first offset that can be read: a record's, or the log's end.

    `passed` are the batches before it that cannot be read: where each was met, and why.
    """

    offset: int
    passed: tuple[tuple[int, str], ...]


class _Fetched(NamedTuple):
    """The first result of a fetch: a record or the log's end at `offset`; or `reason` why there is none.

    Then `offset` is where the batch begins, as far as the client says, else None.
    """

    offset: int | None
    reason: str = ""


def next_readable(
    open_consumer: OpenConsumer, partition: TopicPartition, offset: int, timeout_s: float = FIND_S
) -> NextReadable | None:
    """Return the first offset from this one on that can be read; None where that is not found in time.

    `open_consumer` gives consumers the properties of `offsets.blocking.reading_properties` and those that it
    is called with. Raises `KafkaException` where the broker cannot be asked, or does not let the partition be
    read.
    """
    search = _Search(open_consumer, partition, time.monotonic() + timeout_s)
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

    def __init__(self, open_consumer: OpenConsumer, partition: TopicPartition, ends_s: float) -> None:
        self._open = open_consumer
        self._partition = partition
        self._ends_s = ends_s
        with closing(open_consumer({})) as consumer:
            left_s = max(0.1, ends_s - time.monotonic())
            self._end = log_bounds(consumer, [partition], left_s)[partition].end

    def fetch(self, offset: int) -> _Fetched | None:
        """Return what is found from an offset on; None if that is not known in time."""
        if offset >= self._end:
            return _Fetched(self._end)
        fetches = ClientFetches()
        silence = Silence(fetches, _FETCHES, counts_unparsed=True)
        with closing(self._open({**_BACKOFF, **fetches.properties})) as consumer:
            consumer.assign([KafkaPartition(*self._partition, offset)])
            while time.monotonic() < self._ends_s:
                is_silent = silence.lasts(self._partition, self._end)
                messages = consumer.consume(1, _POLL_S)
                for message in messages:
                    if (found := _taken(message)) is not None:
                        return found
                if is_silent and not messages:
                    return _Fetched(None, _SILENT)
        return None

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
    if error is None or error.code() == ClientCode.PARTITION_EOF:
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
