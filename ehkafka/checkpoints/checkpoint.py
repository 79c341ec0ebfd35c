"""What a store keeps of one partition: how far its group has committed, and who owns it.

Pure values. `next_offset` is that of the vocabulary: the first offset that is not known to be done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ehkafka.progress.metadata import NOTHING_KNOWN, LogFacts

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of offsets, ascending and disjoint."""
CommitMetadata = Literal["none", "ours"]
"""What a commit contains in addition to its offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the broker had acknowledged for a partition when its mirror was written.

    `finished` are records above `next_offset` that have an outcome, `finished_leader_epoch` the newest leader
    epoch among them. `owner` is one run of one process, `epoch` its local number of the assignment. `group`
    and `topic` are the names as they are, which a blob's own name has in lower case; empty where they are not
    known. `facts` are those of the commit.
    `commit_metadata` tells whether the commit that was copied contained anything but its offset, and
    `metadata_returned` whether the service gives that back; None: not known. They show another client's
    commit at the same offset.
    """

    next_offset: int
    finished: Ranges = ()
    finished_leader_epoch: int | None = None
    leader_epoch: int | None = None
    epoch: int = 0
    owner: str = ""
    written_at_ms: int = 0
    group: str = ""
    topic: str = ""
    facts: LogFacts = NOTHING_KNOWN
    commit_metadata: CommitMetadata | None = None
    metadata_returned: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who said when that a partition was theirs; `is_released` once they released it.

    `group` and `topic` as in `Checkpoint`.
    """

    owner: str
    epoch: int
    at_ms: int
    is_released: bool = False
    group: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True)
class MirrorState:
    """How far the mirror is behind the commits. `error` is None while its store takes writes."""

    store: str
    behind_partitions: int
    # Of the partition that has waited longest.
    behind_s: float
    error: str | None
