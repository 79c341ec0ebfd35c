"""What a checker needs to know of a run, as a protocol the engine calls.

Pure values: the engine calls a `History` when a test has set one and pays nothing when none was.
Implementations (memory, JSON lines) and the checker that judges them are in `tests/kit/checker`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ehkafka.records.deferral import is_deferred

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from ehkafka.records import Message, TopicPartition

    # Partition, epoch, offset, key, and the attempt's number.
    Attempt = tuple[TopicPartition, int, int, Hashable, int]


class History(Protocol):
    """Observes one process. Methods are called from the poll thread and from every worker at once.

    A subclass hears of what it overrides.

    An implementation may assume: `received` of an offset comes before its `started`, `started` before
    the `finished` of the same attempt, `finished` before any `commit_requested` that passes the offset,
    `revoked` of an epoch before `assigned` of the next one of that partition.
    It may *not* assume that calls of different keys come in offset order, that a started record is ever
    finished (its epoch may end), or that a requested commit is answered.
    """

    def assigned(self, partition: TopicPartition, epoch: int, position: str) -> None:
        """An epoch began; `position` is the offset, or the start position in words."""

    def revoked(self, partition: TopicPartition, epoch: int, reason: str) -> None:
        """An epoch ended; reason: `revoked`, `lost` or `stopped`."""

    def received(self, partition: TopicPartition, epoch: int, offsets: Sequence[int]) -> None:
        """These offsets, ascending, were handed to the dispatcher."""

    def jumped(self, partition: TopicPartition, epoch: int, next_offset: int) -> None:
        """The log does not hold what comes next; the epoch goes on at `next_offset`, further on."""

    def started(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int
    ) -> None:
        """A worker is about to call the handler; called on the worker's thread."""

    def finished(
        self, partition: TopicPartition, epoch: int, offset: int, key: Hashable, attempt: int, outcome: str
    ) -> None:
        """The call returned. Outcome: one of `Outcome`'s values, or `failed` for an attempt that raised."""

    def dead_lettered(self, partition: TopicPartition, offset: int) -> None:
        """The dead letter of a record is acknowledged; `finished` tells the outcome itself."""

    def commit_requested(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """A commit of these next_offsets is about to be sent."""

    def commit_acknowledged(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """The broker stored these next_offsets."""

    def commit_failed(self, next_offsets: Mapping[TopicPartition, int], error: str) -> None:
        """The broker refused, or the answer never came."""


@contextmanager
def call_in_history(history: History, attempt: Attempt, message: Message) -> Iterator[None]:
    """Report that one call of a handler starts, and how it ended. Used on the worker's thread."""
    history.started(*attempt)
    try:
        yield
    except BaseException:
        history.finished(*attempt, "failed")
        raise
    if not is_deferred(message):  # else its answer is the end, reported by `recovery.pending`
        history.finished(*attempt, "finished")
