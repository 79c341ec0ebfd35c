"""Whether a checkpoint's ranges count for the commit that its group has: whether it copies that very commit.

Pure. The offset alone does not tell: who rewinds a group to the very offset where it stands, with a tool that
knows nothing of us, commits there without metadata, and wants all from there on again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.checkpoints.checkpoint import Checkpoint


def is_copy(checkpoint: Checkpoint, next_offset: int, *, is_ours: bool | None) -> bool:
    """Tell whether the ranges of a checkpoint may be used above the group's commit of `next_offset`.

    `is_ours` says who made that commit, by its metadata; None: it has none. Then it is ours only if ours had
    none, or if the service gives none back. What is not known counts as somebody else's: that only repeats
    records.
    """
    if checkpoint.next_offset != next_offset:
        return False
    if is_ours is None:
        return checkpoint.commit_metadata == "none" or checkpoint.metadata_returned is False
    return is_ours
