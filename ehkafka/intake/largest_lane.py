"""Which key holds most of a partition's backlog: for the log line of a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.order import describe_key

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment


def largest_key(assignment: Assignment) -> str | None:
    """Return the key with the longest lane if it holds half of what is unfinished. Caller has the lock."""
    longest = max(assignment.lanes.values(), key=len, default=None)
    if longest is None or 2 * len(longest) < assignment.unfinished_records:
        return None
    return describe_key(longest.key)
