"""Whether commits go on: a partition that has records and whose commit stands still while all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# So many seconds in which no broker was away. A key on hold, a refused output and a member that was killed
# each hold a commit for much less.
STALLED_S = 120.0
# Of the time between two looks no more counts: who waited for an answer does not know how all was meanwhile.
BETWEEN_S = 5.0


class Stalls:
    """Follows the commits of one level's partitions."""

    def __init__(self, partitions: int) -> None:
        self._commits: list[int | None] = [None] * partitions
        self._stands_s = [0.0] * partitions
        self._looked_s: float | None = None
        # The longest that one has stood.
        self.longest_s = 0.0

    def check(
        self, now_s: float, commits: Sequence[int], ends: Sequence[int], *, is_well: bool
    ) -> list[tuple[int, int]]:
        """Return partition and commit of those that have stalled now; `ends` are behind their last records.

        The time since the last look counts where it `is_well`: brokers and members run.
        """
        passed_s = min(now_s - self._looked_s, BETWEEN_S) if is_well and self._looked_s is not None else 0.0
        self._looked_s = now_s
        return [
            (partition, commit)
            for partition, (commit, end) in enumerate(zip(commits, ends, strict=True))
            if self._stalls(partition, commit, passed_s, is_behind=commit < end)
        ]

    def _stalls(self, partition: int, commit: int, passed_s: float, *, is_behind: bool) -> bool:
        before_s = self._stands_s[partition]
        stands_s = before_s + passed_s if is_behind and commit == self._commits[partition] else 0.0
        self._commits[partition], self._stands_s[partition] = commit if is_behind else None, stands_s
        self.longest_s = max(self.longest_s, stands_s)
        return before_s < STALLED_S <= stands_s
