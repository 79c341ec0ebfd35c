"""Which groups this process has on Spark: a second run of the same group and topic is refused at once.

Any thread. A run of another process takes the group over (`ownership`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ehkafka.errors import GroupInUseError

if TYPE_CHECKING:
    from collections.abc import Collection

_LOCK = threading.Lock()
# Under the lock: the run of each endpoint, group and topic.
_RUNS: dict[tuple[str, str, str], str] = {}


def reserve(endpoint: str, group: str, topics: Collection[str], run: str) -> None:
    """Take a group's topics for a run. Raises `GroupInUseError`, and then takes none."""
    wanted = [(endpoint, group, topic) for topic in topics]
    with _LOCK:
        for key in wanted:
            if (other := _RUNS.get(key)) is not None:
                raise GroupInUseError(
                    f"The group {group!r} on {endpoint} is in use: this process runs it on Spark already "
                    f"(topic {key[2]!r}, run {other}). Two at a time would handle every record twice. Stop "
                    "that run before the next one begins, or give this one a group of its own."
                )
        _RUNS.update(dict.fromkeys(wanted, run))


def give_back(endpoint: str, group: str, topics: Collection[str], run: str) -> None:
    """Let go what the run has of it, if anything."""
    with _LOCK:
        for topic in topics:
            if _RUNS.get((endpoint, group, topic)) == run:
                del _RUNS[endpoint, group, topic]
