"""Hears what an app in a test does.

Called by the engine from the poll thread and every worker; read by the thread of the test, which it wakes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.events.history import History

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from ehkafka.records import TopicPartition


class End(NamedTuple):
    """How one attempt ended. Outcome: one of `Outcome`'s values, or `failed`."""

    partition: TopicPartition
    offset: int
    attempt: int
    outcome: str


class NotedHistory(History):
    """Keeps how attempts ended, and what is committed."""

    def __init__(self) -> None:
        # Guards what follows, and is notified of each change.
        self._changed = threading.Condition()
        self._ends: list[End] = []
        self._committed: dict[TopicPartition, int] = {}

    def ends(self) -> list[End]:
        """Return how attempts have ended so far, in that order."""
        with self._changed:
            return list(self._ends)

    def committed(self) -> dict[TopicPartition, int]:
        """Return the next_offsets that the broker has acknowledged."""
        with self._changed:
            return dict(self._committed)

    def wait_for_commit(self, next_offsets: Mapping[TopicPartition, int], timeout_s: float) -> bool:
        """Wait until the broker has acknowledged these next_offsets, or later ones; True when it has."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(self._committed.get(where, 0) >= end for where, end in next_offsets.items()),
                timeout_s,
            )

    def finished(
        self,
        partition: TopicPartition,
        epoch: int,  # noqa: ARG002 - as the protocol has it
        offset: int,
        key: Hashable,  # noqa: ARG002
        attempt: int,
        outcome: str,
    ) -> None:
        """Note that an attempt ended, or a record got an outcome without one."""
        with self._changed:
            self._ends.append(End(partition, offset, attempt, outcome))
            self._changed.notify_all()

    def commit_acknowledged(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note what is committed."""
        with self._changed:
            self._committed.update(next_offsets)
            self._changed.notify_all()
