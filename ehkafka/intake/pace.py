"""How fast each partition's records end, and so which of them are stuck. Pure; the poll thread's alone.

A partition that holds many records is no problem if they end soon: what counts as stuck is what will not have
ended within the next second, going by the last one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.records import TopicPartition

AHEAD_S: Final = 1.0
# Between two looks, and how many of them are kept.
_SAMPLE_S: Final = 0.25
_SAMPLES_MAX: Final = 4


class Counts(NamedTuple):
    """A partition's records in the backlog, and how many have left it since its epoch began."""

    partition: TopicPartition
    backlog_records: int
    gone_records: int


class PartitionPaces:
    """Remembers how many records had ended when."""

    def __init__(self) -> None:
        # The last looks at each partition that had a backlog then, the newest at the end.
        self._samples: dict[TopicPartition, deque[tuple[float, int]]] = {}
        self._sampled_s = float("-inf")

    def sample(self, all_counts: Iterable[Counts], now_s: float) -> None:
        """Look at all partitions that are ours, where the last look is old enough."""
        if now_s < self._sampled_s + _SAMPLE_S:
            return
        self._sampled_s = now_s
        known, self._samples = self._samples, {}
        for partition, backlog_records, gone_records in all_counts:
            if backlog_records:
                samples = known.get(partition)
                if samples is None or samples[-1][1] > gone_records:  # of an earlier epoch
                    samples = deque(maxlen=_SAMPLES_MAX)
                samples.append((now_s, gone_records))
                self._samples[partition] = samples

    def stuck_records(self, counts: Counts, now_s: float) -> int:
        """Return how many records of a partition will not end within a second. New ones are taken for stuck.

        What stands behind a stuck partition's records in the client's queue waits, so nothing waits to see.
        """
        if not counts.backlog_records:
            return 0
        new = deque(((now_s, counts.gone_records),), maxlen=_SAMPLES_MAX)
        since_s, before = self._samples.setdefault(counts.partition, new)[0]
        if now_s <= since_s:
            return counts.backlog_records
        ended = int((counts.gone_records - before) / (now_s - since_s) * AHEAD_S)
        return max(0, counts.backlog_records - max(0, ended))
