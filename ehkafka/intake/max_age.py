"""`max_age`: which records are too old to be handled, and one word on each burst of them.

On the poll thread. Compares a record's timestamp (on Event Hubs the enqueued time) with this machine's
wall clock; a record without a timestamp is never too old. It decides nothing else: the inboxes give
the outcome.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from ehkafka.events import RecordsTooOld

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from ehkafka.events import CounterName, Event
    from ehkafka.records import Message, TopicPartition

# A burst is reported when it pauses between two looks, or has lasted for so long.
BURST_S = 10.0


@dataclass(slots=True)
class _Burst:
    began_s: float
    first_offset: int
    last_offset: int
    oldest_ms: int
    records: int = 0
    # At the last look; as many at the next one: the burst is over.
    seen_records: int = 0


class AgeLimits:
    """Finds the records above their topic's age, counts them and tells of them."""

    def __init__(
        self,
        max_age_s: Mapping[str, float],
        *,
        emit: Callable[[Event], None],
        count: Callable[[CounterName, int], None],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`max_age_s` by topic; a topic that is not in it has no limit."""
        self._max_age_s = max_age_s
        self._emit = emit
        self._count = count
        self._wall_clock = wall_clock
        self._bursts: dict[TopicPartition, _Burst] = {}

    def too_old(self, partition: TopicPartition, messages: Sequence[Message]) -> Container[int]:
        """Return which offsets of a batch are too old; empty and falsy when none is."""
        max_age_s = self._max_age_s.get(partition.topic)
        if max_age_s is None:
            return ()
        now_s = self._wall_clock()
        oldest_allowed_ms = (now_s - max_age_s) * 1000
        old = {}
        for message in messages:
            kind, timestamp_ms = message.timestamp()
            # Some producers write -1 for none, which librdkafka hands on like any other.
            if 0 <= timestamp_ms < oldest_allowed_ms and kind != TIMESTAMP_NOT_AVAILABLE:
                old[message.offset()] = timestamp_ms
        if old:
            self._note(partition, old, now_s)
        return old.keys()

    def _note(self, partition: TopicPartition, old: dict[int, int], now_s: float) -> None:
        self._count("records_too_old", len(old))
        burst = self._bursts.get(partition)
        if burst is None:
            burst = self._bursts[partition] = _Burst(now_s, min(old), max(old), min(old.values()))
        burst.last_offset = max(old)
        burst.oldest_ms = min(burst.oldest_ms, *old.values())
        burst.records += len(old)

    def check(self) -> None:
        """Tell of the bursts that are over or have lasted long. Twice a second."""
        now_s = self._wall_clock()
        for partition, burst in list(self._bursts.items()):
            if burst.records == burst.seen_records or now_s - burst.began_s >= BURST_S:
                self.report(partition)
            else:
                burst.seen_records = burst.records

    def report(self, partition: TopicPartition) -> None:
        """Tell of a partition's burst now, if there is one: its epoch ends."""
        burst = self._bursts.pop(partition, None)
        if burst is None:
            return
        self._emit(
            RecordsTooOld(
                partition,
                burst.records,
                burst.first_offset,
                burst.last_offset,
                oldest_age_s=self._wall_clock() - burst.oldest_ms / 1000,
                max_age_s=self._max_age_s[partition.topic],
            )
        )
