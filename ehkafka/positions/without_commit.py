"""Where a partition begins whose group has no commit, as far as `on_no_group_offsets` alone says it.

On the poll thread, inside the assign callback. An app without a mirror needs no more than this; one with a
mirror asks that, too (`mirror_start`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import EndpointError
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnNoGroupOffsets

_NAMED = 10


class WithoutCommit:
    """What a run asks for partitions without a commit; it knows no place but `start`."""

    def __init__(self, policy: OnNoGroupOffsets, *, group: str) -> None:
        self._policy = policy
        self._group = group

    def find(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next_offsets of those that begin elsewhere than at `start`. Raises `EndpointError`."""
        if partitions and self._policy == "fail":
            shown = ", ".join(map(str, sorted(partitions)[:_NAMED]))
            raise EndpointError(
                f"The group {self._group!r} has no committed offset for "
                f"{counted(len(partitions), 'partition')} "
                f"({shown}), and on_no_group_offsets='fail'. Commit where they are to begin (ehkafka offsets "
                "reset), or set it to 'start'."
            )
        return {}

    def facts(self, _partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogFacts]:
        """Return what is known of the log and the group beside the group's commits."""
        return {}
