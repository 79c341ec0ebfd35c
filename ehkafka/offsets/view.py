"""Where a group stands in a partition's log. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.progress.ranges import count_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.positions.gap import LogBounds
    from ehkafka.progress.ranges import Ranges


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The log of a partition, and the group's commit in it. Made by `GroupOffsets.views`."""

    # Its number.
    partition: int
    # The offsets of its first record (`start`) and behind its last one (`end`).
    log: LogBounds
    # The offset of the group's commit; None: it has none.
    committed: int | None
    # The records above the commit that it says to be finished, as half-open ranges of offsets.
    finished: Ranges = ()
    # False: it is no commit of ehkafka's, which says nothing of that.
    says_finished: bool = False
    # False: more may be finished than a commit had room for.
    says_all: bool = True

    @property
    def finished_above(self) -> int:
        """How many records above the commit it says to be finished."""
        return count_offsets(self.finished)

    def finished_within(self, start: int, end: int) -> int:
        """Return how many records above the commit are finished, between two offsets.

        - `start` (required): the first offset that counts.
        - `end` (required): the offset behind the last one.
        """
        return sum(max(0, min(last, end) - max(first, start)) for first, last in self.finished)

    @property
    def unfinished(self) -> int | None:
        """What is left to handle, as far as is known; None where the commit does not say.

        Without a commit that is the whole log, as for the lag.
        """
        if self.lag and self.committed is not None and not self.says_finished:
            return None
        return max(0, self.lag - self.finished_above)

    @property
    def next_offset(self) -> int | None:
        """Where the next record is to be read; None where nothing is left to handle."""
        if not self.lag or self.unfinished == 0:
            return None
        return self.log.start if self.committed is None else max(self.log.start, self.committed)

    @property
    def lag(self) -> int:
        """What is left to read. Without a commit that is the whole log: less is not known."""
        return max(0, self.log.end - (self.log.start if self.committed is None else self.committed))

    @property
    def problem(self) -> str:
        """What is wrong with the commit, in a few words; empty when nothing is."""
        if self.committed is None:
            return "no commit"
        return outside(self.committed, self.log)

    @property
    def is_outside(self) -> bool:
        """Whether the commit cannot be read from."""
        return self.committed is not None and not self.log.holds(self.committed)


@dataclass(frozen=True, slots=True)
class LagReport:
    """All partitions of a topic at one look. Made by `LagReport.of`."""

    # In the order of the partitions.
    views: tuple[PartitionView, ...]

    @classmethod
    def of(cls, views: Mapping[int, PartitionView]) -> LagReport:
        """Return the report in the order of the partitions.

        - `views` (required): what `GroupOffsets.views()` returned.
        """
        return cls(tuple(views[number] for number in sorted(views)))

    @property
    def total(self) -> int:
        """The lag of all partitions."""
        return sum(view.lag for view in self.views)

    @property
    def has_commits(self) -> bool:
        """Whether the group has committed in any partition."""
        return any(view.committed is not None for view in self.views)

    @property
    def total_unfinished(self) -> int:
        """What is left to handle, over the partitions of which it is known."""
        return sum(view.unfinished or 0 for view in self.views)

    @property
    def is_at_least(self) -> bool:
        """Whether more may be left: commits of plain clients do not say."""
        return any(view.unfinished is None for view in self.views)

    @property
    def is_at_most(self) -> bool:
        """Whether less may be left: not everything that was finished had room in a commit."""
        return any(view.unfinished and not view.says_all for view in self.views)

    def fails(self, over: int) -> bool:
        """Return whether the lag is too large, or unknown because a commit is outside of its log.

        - `over` (required): the largest lag that is not, in records of all partitions.
        """
        return self.total > over or any(view.is_outside for view in self.views)


def outside(offset: int, log: LogBounds) -> str:
    """Say how far a position is out of its log; empty when it is in it."""
    if offset > log.end:
        return f"{offset - log.end} ahead of the log's end"
    if offset < log.start:
        return f"{log.start - offset} before the log's start"
    return ""
