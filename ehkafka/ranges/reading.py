"""Reads pieces of partitions: each offset range from its start to its end, and nothing else.

A range's end may be an offset that no record has: a control record of a transaction, or one that was
compacted away. Then the broker's word that its log ends, or the next record, tells that the range is read.
Records that retention took before they were read are named, and the reader's option decides whether the
reading ends there. Within a partition the order is the log's. One thread, whichever it is.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import Message
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.broker_errors import failed_fetch
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError, TopicNotFoundError
from ehkafka.headers.size import sizes_of
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.ranges.loss import Loss
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from ehkafka.positions.gap import LogBounds
    from ehkafka.ranges.client import OpenConsumer
    from ehkafka.ranges.loss import Words
    from ehkafka.ranges.options import RangeOptions
    from ehkafka.ranges.places import Piece

# So many messages are made, read and freed within the processor's cache: with 20,000 a record costs a fifth
# more. `batches` joins what becomes of them.
CONSUME_RECORDS = 2_000
# Keeps large records in bounds.
CONSUME_BYTES = 16 * 1024 * 1024
# Their size is guessed by so many of them: to size each one costs a tenth of a reading.
SIZED_RECORDS = 32
# Messages make no cycles, but Python's collector looks at each of them: a third of the time with its default.
NEW_OBJECTS_MAX = 50_000
# How long a batch may wait to be full. The last batch is full when nothing is left to come.
WAIT_S = 0.02
# A refused credential is reported by the way; librdkafka goes on trying, a reader need not for minutes.
REFUSED_S = 10.0
FIND_S = 30.0

_OUT_OF_LOG = {ClientCode.AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_GONE = {ClientCode.UNKNOWN_TOPIC, ClientCode.UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
_REFUSED = {ClientCode.AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}
_FORBIDDEN = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}


def messages(
    options: RangeOptions, pieces: Sequence[Piece], consumer: AbstractContextManager[OpenConsumer]
) -> Iterator[tuple[Piece, list[Message]]]:
    """Yield the records of each piece, in lists of one piece and in offset order.

    While the broker has nothing to give, empty lists come, one at least every `WAIT_S`: who reads has
    other things to look at.

    Pieces of one partition are read one after the other, others side by side by the one consumer, which is
    entered where there is something to read. Raises `OffsetGapError`, `EndpointError`, `TopicNotFoundError`
    or `ConfigurationError`.
    """
    if not pieces:
        return
    with consumer as lent, _collector_set():
        for round_pieces in _rounds(pieces):
            yield from _Reading(options, lent, round_pieces).batches()


@contextmanager
def _collector_set() -> Iterator[None]:
    before = gc.get_threshold()
    if before[0] >= NEW_OBJECTS_MAX:
        yield  # set by another reader, which restores it: readers end in any order
        return
    gc.set_threshold(NEW_OBJECTS_MAX, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _rounds(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield pieces that can be assigned together: a partition has one position."""
    waiting: dict[TopicPartition, deque[Piece]] = {}
    for piece in pieces:
        if piece.end > piece.start:
            waiting.setdefault(piece.where, deque()).append(piece)
    while waiting:
        yield [queue.popleft() for queue in waiting.values()]
        waiting = {where: queue for where, queue in waiting.items() if queue}


class _Reading:
    """The reading of one piece each of some partitions."""

    def __init__(self, options: RangeOptions, lent: OpenConsumer, pieces: list[Piece]) -> None:
        self._options = options
        self._consumer = lent.consumer
        self._errors = lent.errors
        self._open = {piece.where: piece for piece in pieces}
        # The offset after the last one received.
        self._next = {piece.where: piece.start for piece in pieces}
        self._topics = {piece.topic for piece in pieces}
        self._want_records = CONSUME_RECORDS
        self._began_s = 0.0

    def batches(self) -> Iterator[tuple[Piece, list[Message]]]:
        self._errors.clear()
        self._consumer.assign([KafkaPartition(*where, piece.start) for where, piece in self._open.items()])
        self._has_progress()
        while self._open:
            yield from self._consumed()

    def _consumed(self) -> Iterator[tuple[Piece, list[Message]]]:
        """Ask once. Its end frees the records before others are made, in memory that is still cached."""
        got = self._consumer.consume(self._count(), WAIT_S)
        events = [message for message in got if message.error()] if any(map(Message.error, got)) else []
        records = [message for message in got if not message.error()] if events else got
        # First: librdkafka passes some of these batches, and what it returns then lies behind a hole.
        for event in events:
            _refuse_broken(event, self._options.words)
        if not records:
            self._check_deadline()
            asked_s = time.monotonic()
            yield next(iter(self._open.values())), records
            self._began_s += time.monotonic() - asked_s
        # Who reads may take time between two of ours: only waiting for the broker counts.
        for piece, of_piece in self._by_piece(records):
            yield piece, of_piece
            self._has_progress()
        # Afterwards: what is reported of a partition's end comes behind its records.
        for event in events:
            self._on_error(event)

    def _count(self) -> int:
        """Return how many to ask for: what is left to come, so that the last call waits for nothing."""
        left = sum(piece.end - self._next[where] for where, piece in self._open.items())
        return max(1, min(left, self._want_records))

    def _by_piece(self, got: list[Message]) -> Iterator[tuple[Piece, list[Message]]]:
        for where, records in self._grouped(got):
            piece = self._open.get(where)
            if piece is None:
                continue  # behind its end, from before it was unassigned
            last = records[-1].offset() or 0
            self._next[where] = last + 1
            if last + 1 >= piece.end:
                self._close(where)
            is_within = last < piece.end
            if (
                wanted := records
                if is_within
                else [one for one in records if (one.offset() or 0) < piece.end]
            ):
                self._adapt(wanted)
                yield piece, wanted

    def _grouped(self, got: list[Message]) -> Iterator[tuple[TopicPartition, list[Message]]]:
        """Yield the records of each partition, in their order."""
        if len(self._next) == 1:
            if got:
                yield next(iter(self._next)), got
            return
        # The client hands over what one answer of the broker held at a time, so partitions come in runs.
        groups: dict[TopicPartition, list[Message]] = {}
        places: list[Any] = list(map(Message.partition, got))
        if len(self._topics) > 1:
            places = list(zip(map(Message.topic, got), places, strict=True))
        first = 0
        for place, run in groupby(places):
            end = first + len(list(run))
            where = TopicPartition(*(place if len(self._topics) > 1 else (*self._topics, place)))
            groups.setdefault(where, []).extend(got[first:end])
            first = end
        yield from groups.items()

    def _on_error(self, event: Message) -> None:
        """Act on an event in place of a record. Raises what ends the reading."""
        error = event.error()
        assert error is not None
        where = TopicPartition(str(event.topic()), event.partition() or 0)
        if error.code() == ClientCode.PARTITION_EOF:
            self._on_end(where, event.offset() or 0)
        elif error.code() in _OUT_OF_LOG:
            self._lose(where)
        elif error.code() in _GONE:
            raise TopicNotFoundError(f"{where} does not exist any more: {describe_error(error)}")
        elif error.code() in _FORBIDDEN:
            raise EndpointError(f"The broker denies this client access to {where}: {describe_error(error)}")
        else:
            self._errors.append(error)

    def _on_end(self, where: TopicPartition, offset: int) -> None:
        """Take the broker's word that the log ends at `offset` for now."""
        piece = self._open.get(where)
        if piece is None:
            return
        if offset >= piece.end:
            # What lay between was no record for us, or was compacted away.
            self._close(where)
        elif self._bounds(where).end < piece.end:
            # The end was there when the reading was planned: the log was cut since.
            self._lose(where)

    def _lose(self, where: TopicPartition) -> None:
        """Name what is gone; go on behind it, if that is allowed."""
        piece = self._open.get(where)
        if piece is None:
            return
        loss = Loss(where, self._next[where], piece.end, *self._bounds(where))
        loss.lost(self._options.words).settle(fail=self._options.fail_on_data_loss)
        self._next[where] = loss.resume_at
        if loss.resume_at >= piece.end:
            self._close(where)
            return
        # librdkafka refuses to seek a partition that it has given up.
        self._consumer.incremental_unassign([KafkaPartition(*where)])
        self._consumer.incremental_assign([KafkaPartition(*where, loss.resume_at)])

    def _bounds(self, where: TopicPartition) -> LogBounds:
        try:
            return log_bounds(self._consumer, [where], min(FIND_S, self._options.timeout_s))[where]
        except KafkaException as error:
            text = describe_error(error.args[0])
            what = "the broker does not answer which offsets the log holds"
            raise EndpointError(f"{where}: {what}: {text}") from None

    def _close(self, where: TopicPartition) -> None:
        """Be done with a partition; the last one is unassigned with all."""
        del self._open[where]
        if self._open:
            self._consumer.incremental_unassign([KafkaPartition(*where)])

    def _adapt(self, records: list[Message]) -> None:
        """Ask for as many as the bytes allow, by the size of the last of these."""
        latest = records[-SIZED_RECORDS:]
        mean_bytes = sum(sizes_of(latest)) // len(latest)  # type: ignore[arg-type]
        self._want_records = min(CONSUME_RECORDS, max(1, CONSUME_BYTES // max(1, mean_bytes)))

    def _has_progress(self) -> None:
        self._began_s = time.monotonic()

    def _check_deadline(self) -> None:
        """Give up when nothing has come for too long; earlier when the broker has said why."""
        waited_s = time.monotonic() - self._began_s
        refused = [error for error in self._errors if error.code() in _REFUSED]
        if waited_s < (min(REFUSED_S, self._options.timeout_s) if refused else self._options.timeout_s):
            return
        left = ", ".join(
            f"{where} from {self._next[where]} to {piece.end}" for where, piece in self._open.items()
        )
        last = (refused or self._errors)[-1:]
        why = f" Last error: {describe_error(last[0])}" if last else ""
        raise EndpointError(
            f"No record arrived within {waited_s:.0f} s, although the log has records: {left}.{why}"
            f" {self._options.words.slow}"
        )


def _refuse_broken(event: Message, words: Words) -> None:
    """Raise what ends the reading where a batch cannot be read."""
    failed = failed_fetch(event)
    if failed is not None and failed.is_batch:
        raise EndpointError(
            f"{failed.text()} No later record is read, so that this batch is not lost. {words.broken}"
        )
