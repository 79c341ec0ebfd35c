"""The first and last offset of each log as far as they are known, each with its time. Pure.

Fetch answers, as the client keeps them, and the broker's answers to `LogAsker` write it on the poll thread;
any thread reads. A number without its time would look current for ever: a slow app fetches nothing, and
neither does a paused partition or one with a silent leader.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition

# So long a number stands for the present: statistics of the client come every 5 s at most, and a question
# that a fetch does not answer is put every 2 s.
KNOWN_S: Final = 8.0


class KnownLog(NamedTuple):
    """A log as it was at `at_s`. `start` is None until a broker was asked for it."""

    start: int | None
    end: int
    at_s: float


class LogStates:
    """The logs of the partitions that are ours."""

    def __init__(self) -> None:
        # Entries are replaced, never changed.
        self._known: dict[TopicPartition, KnownLog] = {}
        # Since when each is ours.
        self._since_s: dict[TopicPartition, float] = {}
        # Asked for at the next look, however young what is known is: something waits for it.
        self.wanted: set[TopicPartition] = set()

    def get(self, partition: TopicPartition) -> KnownLog | None:
        """Return what is known of a log."""
        return self._known.get(partition)

    def end(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record, of whatever moment."""
        known = self._known.get(partition)
        return None if known is None else known.end

    def age_s(self, partition: TopicPartition, now_s: float) -> float:
        """Return how old that is; infinite where nothing is known."""
        known = self._known.get(partition)
        return math.inf if known is None else max(0.0, now_s - known.at_s)

    def since_s(self, partition: TopicPartition) -> float | None:
        """Return since when no broker has answered for a log; None where it is not ours."""
        known = self._known.get(partition)
        return self._since_s.get(partition) if known is None else known.at_s

    def begin(self, partition: TopicPartition, now_s: float) -> None:
        """Hear that a log is ours from now on: a leader may be silent from the first moment on."""
        self._since_s[partition] = now_s

    def fetched(self, partition: TopicPartition, end: int, at_s: float) -> None:
        """Take where a fetch answer of that moment or later said that a log ends."""
        known = self._known.get(partition)
        if known is None or at_s >= known.at_s:
            start = None if known is None else known.start
            self._known[partition] = KnownLog(start, end, at_s)

    def answered(self, partition: TopicPartition, log: LogBounds, at_s: float) -> None:
        """Take a broker's answer to a question of that moment. What a fetch has shown stays."""
        known = self._known.get(partition)
        end = log.end if known is None else max(log.end, known.end)
        at_s = at_s if known is None else max(at_s, known.at_s)
        self._known[partition] = KnownLog(log.start, end, at_s)

    def forget(self, partition: TopicPartition) -> None:
        """Drop what was known of a log: the partition is not ours any more, or its log is another one."""
        self._known.pop(partition, None)
        self._since_s.pop(partition, None)
