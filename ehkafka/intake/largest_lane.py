"""Which key holds most of a partition's backlog: for the log line of a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane


def largest_lane(assignment: Assignment) -> Lane | None:
    """Return the longest lane if it holds half of what is unfinished. Caller has the lock."""
    longest = max(assignment.lanes.values(), key=len, default=None)
    if longest is None or 2 * len(longest) < assignment.unfinished_records:
        return None
    return longest
