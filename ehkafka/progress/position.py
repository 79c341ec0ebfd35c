"""What is known of a partition's progress at a commit: the value that commits and their copies carry.

Pure values; made by the poll thread, then handed around freely.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition has got. All offsets below `next_offset` have an outcome or are not in the log.

    `finished` are half-open ranges at or above `next_offset`, ascending and apart, whose received records
    have an outcome, too. `last_timestamp_ms` is the Kafka timestamp of the record just before
    `next_offset`. It is known only at the end of a batch; `anchor` is the latest record below
    `next_offset` of which it is known, as (offset, timestamp in ms). `finished_leader_epoch` is the newest
    leader epoch among the finished records: a record of a newer one is another than the one that finished.
    `first_partitions`, `topic_id` and `reset` are facts of the log and the group: see `metadata.LogFacts`.
    `has_metadata` tells whether the commit says anything beside its offset; None: not known.
    """

    next_offset: int
    leader_epoch: int | None
    finished: tuple[tuple[int, int], ...]
    last_timestamp_ms: int | None
    anchor: tuple[int, int] | None = None
    finished_leader_epoch: int | None = None
    first_partitions: int | None = None
    topic_id: bytes | None = None
    reset: str | None = None
    has_metadata: bool | None = None
