"""How fast each partition's records end, and so which of them are stuck. Pure; the poll thread's alone.

A partition that holds many records is no problem if they end soon. So what counts as stuck is what will not
have ended within the next second, going by the last half, or by as long as a few calls take where that is
longer. Of a partition whose first records have just come nobody knows: there the answer is None until its
handlers have had the time for a few.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.records import TopicPartition

# How far the look ahead goes, and how far the look back where calls are short: between one and two of these.
AHEAD_S: Final = 1.0
_SAMPLE_S: Final = 0.25
# A partition's handlers get time for so many records before it is judged, within these bounds in seconds.
_CALLS: Final = 4
_PATIENCE_S_MIN, _PATIENCE_S_MAX = 0.01, 1.0
# So many looks are kept, with the newest: the oldest is never younger than the longest patience. Else nobody
# would ever know of a partition whose calls are slow.
_SAMPLES_MAX: Final = 1 + math.ceil(_PATIENCE_S_MAX / _SAMPLE_S)


class Counts(NamedTuple):
    """What a partition holds, and how many of its records have left the backlog since its epoch began."""

    partition: TopicPartition
    backlog_records: int
    gone_records: int


class _Sample(NamedTuple):
    at_s: float
    gone_records: int


class PartitionPaces:
    """Remembers what had ended when."""

    def __init__(self) -> None:
        # The last looks at each partition that had a backlog then, the newest at the end.
        self._samples: dict[TopicPartition, tuple[_Sample, ...]] = {}
        self._sampled_s = float("-inf")

    def sample(self, all_counts: Iterable[Counts], now_s: float) -> None:
        """Look at all partitions that are ours, where the last look is old enough."""
        if now_s < self._sampled_s + _SAMPLE_S:
            return
        self._sampled_s = now_s
        known, self._samples = self._samples, {}
        for counts in all_counts:
            if counts.backlog_records:
                new = _Sample(now_s, counts.gone_records)
                seen = known.get(counts.partition, ())
                # A new epoch of the partition begins to count anew.
                if seen and seen[-1].gone_records > counts.gone_records:
                    seen = ()
                self._samples[counts.partition] = (*seen[1 - _SAMPLES_MAX :], new)

    def stuck_records(self, counts: Counts, mean_s: float, now_s: float) -> int | None:
        """Return how many records of a partition will not end within a second; None: it is too early to say.

        `mean_s` is what a call of its handler takes; 0 where that is not known.
        """
        if not counts.backlog_records:
            return 0
        new = _Sample(now_s, counts.gone_records)
        samples = self._samples.setdefault(counts.partition, (new,))
        until_s = now_s - min(_PATIENCE_S_MAX, max(_PATIENCE_S_MIN, _CALLS * mean_s))
        # The newest is too new to go by, unless it is the only one.
        known = samples[:-1] or samples
        since = next((sample for sample in reversed(known) if sample.at_s <= until_s), None)
        if since is None:
            return None
        ended = max(0, counts.gone_records - since.gone_records)
        return max(0, counts.backlog_records - int(ended / (now_s - since.at_s) * AHEAD_S))
