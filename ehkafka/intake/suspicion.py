"""Whether a partition of which nobody knows yet is taken for stuck. Pure; the poll thread's alone.

To know it takes a few calls of the handler, and meanwhile nothing is taken: what stands behind a stuck
partition's records in the client's queue waits. One after another that is seconds where many are stuck, in
which the others get nothing. So if the last that were waited for turned out to be stuck, the next is paused
at once; what that costs where it was not stuck is one block, fetched again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.records import TopicPartition

# So many of the last that were waited for count, and so many of them must have been stuck.
_LAST: Final = 4
_STUCK_MIN: Final = 3


class Suspicion:
    """Remembers what became of the last partitions of which nobody knew."""

    def __init__(self) -> None:
        # Whether each was stuck, the newest at the end.
        self._were_stuck: deque[bool] = deque(maxlen=_LAST)
        self._unknown: set[TopicPartition] = set()

    @property
    def is_justified(self) -> bool:
        """Whether the next is likely to be stuck."""
        return sum(self._were_stuck) >= _STUCK_MIN

    def note(
        self, unknown: set[TopicPartition], known: Iterable[TopicPartition], stuck: set[TopicPartition]
    ) -> None:
        """Hear of which partitions it is too early to tell, of which it is known now, and which are stuck."""
        for partition in known:
            if partition in self._unknown:
                self._were_stuck.append(partition in stuck)
        self._unknown = unknown

    def was_wrong(self) -> None:
        """Hear that one was paused by suspicion and has moved on."""
        self._were_stuck.append(False)
