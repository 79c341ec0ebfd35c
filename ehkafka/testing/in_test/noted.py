"""Hears what an app in a test does, and passes it on to the app's own history.

Called by the engine from the poll thread and every worker; read by the thread of the test, which it wakes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from ehkafka.events.history import History
    from ehkafka.records import TopicPartition


class End(NamedTuple):
    """How one attempt ended. Outcome: one of `Outcome`'s values, or `failed`."""

    partition: TopicPartition
    offset: int
    attempt: int
    outcome: str


class NotedHistory:
    """An `ehkafka.events.history.History` that keeps how attempts ended, and what is committed."""

    def __init__(self, own: History | None) -> None:
        self._own = own
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

    def assigned(self, partition: TopicPartition, epoch: int, position: str) -> None:
        """Pass on that an epoch began."""
        self._pass_on("assigned", partition, epoch, position)

    def revoked(self, partition: TopicPartition, epoch: int, reason: str) -> None:
        """Pass on that an epoch ended."""
        self._pass_on("revoked", partition, epoch, reason)

    def received(self, partition: TopicPartition, epoch: int, offsets: Sequence[int]) -> None:
        """Pass on that these offsets came."""
        self._pass_on("received", partition, epoch, offsets)

    def jumped(self, partition: TopicPartition, epoch: int, next_offset: int) -> None:
        """Pass on that an epoch goes on at a later offset."""
        self._pass_on("jumped", partition, epoch, next_offset)

    def started(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int
    ) -> None:
        """Pass on that an attempt begins."""
        self._pass_on("started", partition, epoch, offset, key, attempt)

    def finished(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int, outcome: str
    ) -> None:
        """Note that an attempt ended, or a record got an outcome without one."""
        with self._changed:
            self._ends.append(End(partition, offset, attempt, outcome))
            self._changed.notify_all()
        self._pass_on("finished", partition, epoch, offset, key, attempt, outcome)

    def dead_lettered(self, partition: TopicPartition, offset: int) -> None:
        """Pass on that a dead letter is acknowledged."""
        self._pass_on("dead_lettered", partition, offset)

    def commit_requested(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Pass on that a commit is about to be sent."""
        self._pass_on("commit_requested", next_offsets)

    def commit_acknowledged(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Note what is committed."""
        with self._changed:
            self._committed.update(next_offsets)
            self._changed.notify_all()
        self._pass_on("commit_acknowledged", next_offsets)

    def commit_failed(self, next_offsets: Mapping[TopicPartition, int], error: str) -> None:
        """Pass on that a commit was refused."""
        self._pass_on("commit_failed", next_offsets, error)

    def _pass_on(self, what: str, *values: Any) -> None:
        if self._own is not None:
            call: Callable[..., None] = getattr(self._own, what)
            call(*values)
