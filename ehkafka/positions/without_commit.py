"""The start of a partition without a commit, as far as `on_no_group_offsets` alone decides it.

On the poll thread, inside the assign callback. An app without a mirror needs no more than this; one with a
mirror asks that, too (`mirror_start`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import EndpointError
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnNoGroupOffsets

_NAMED = 10


class KnownStarts(NamedTuple):
    """The known starts of partitions without a commit."""

    # The next_offsets of those that begin elsewhere than at `start`.
    offsets: Mapping[TopicPartition, int] = MappingProxyType({})
    # What copies of commits say of the log and the group; of other partitions of their topics, too.
    facts: Mapping[TopicPartition, LogFacts] = MappingProxyType({})
    # Those of which it is not known yet where they begin, and why.
    waiting: Mapping[TopicPartition, str] = MappingProxyType({})


class WithoutCommit:
    """Finds starts of partitions without a commit; it knows no other place than `start`."""

    def __init__(self, policy: OnNoGroupOffsets, *, group: str) -> None:
        self._policy = policy
        self._group = group

    def find(self, partitions: Sequence[TopicPartition], _others: Sequence[TopicPartition]) -> KnownStarts:
        """Return where those begin that do not begin at `start`; of the others it asks only for facts.

        Raises `EndpointError`.
        """
        if partitions and self._policy == "fail":
            shown = ", ".join(map(str, sorted(partitions)[:_NAMED]))
            raise EndpointError(
                f"The group {self._group!r} has no committed offset for "
                f"{counted(len(partitions), 'partition')} "
                f"({shown}), and on_no_group_offsets='fail' ends the app. Commit an offset (ehkafka "
                f"offsets reset), or set on_no_group_offsets='start'."
            )
        return KnownStarts()

    def is_known(self, _partitions: Sequence[TopicPartition]) -> bool:
        """Ask again about partitions that wait; True once it is worth while to find them again."""
        return True


def refuse_waiting(waiting: Mapping[TopicPartition, str]) -> None:
    """Raise `EndpointError` where partitions would have to wait, for a caller that cannot wait."""
    if waiting:
        shown = ", ".join(map(str, sorted(waiting)[:_NAMED]))
        raise EndpointError(
            f"The start of {counted(len(waiting), 'partition')} ({shown}) is not known: "
            f"{ended(min(waiting.values()))} Start again when the broker or mirror answers."
        )
