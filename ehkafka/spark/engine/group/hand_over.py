"""Whether a query may go on from its checkpoint, or another client has moved the group since. Pure.

The checkpoint knows every batch; the group knows what was committed, by us after a batch, or by a consumer
in between. Called on the driver before a query starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.group.ownership import Tag
from ehkafka.wording import ended
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.positions.same_log import WitnessRecord
    from ehkafka.records import TopicPartition
    from ehkafka.spark.engine.group.ownership import Commit

    Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What a checkpoint says: where the last finished batch ended, and where all those it remembers ended.

    `ends` includes where the first one began, if that is remembered; `topic_ids` tell the logs of `finished`,
    or `witnesses` do, one record of each.
    """

    finished: Positions
    ends: tuple[Positions, ...]
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    witnesses: Mapping[TopicPartition, WitnessRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Whose:
    """What a checkpoint is called: its folder, its group, its own name; whether commits keep tags of it."""

    where: str
    group: str
    checkpoint: str
    keeps_tags: bool = True


def check_hand_over(
    whose: Whose, standing: CheckpointState, committed: Mapping[TopicPartition, Commit]
) -> Positions:
    """Return the partitions whose commit is behind the checkpoint, with where the checkpoint stands.

    That is what a driver leaves that was killed before its last commits. Raises `ConfigurationError` when the
    group is ahead, or stands where this checkpoint's runs have not committed: another client has moved it.
    """
    moved = {
        partition: commit
        for partition, commit in committed.items()
        if not _is_ours(partition, commit, standing, whose)
    }
    if moved:
        raise ConfigurationError(_described(whose, standing, moved))
    return {
        partition: offset
        for partition, offset in standing.finished.items()
        if partition not in committed or committed[partition].offset < offset
    }


def _is_ours(partition: TopicPartition, commit: Commit, standing: CheckpointState, whose: Whose) -> bool:
    finished = standing.finished.get(partition)
    if finished is not None and commit.offset >= finished:
        return commit.offset == finished
    tag = Tag.read(commit.metadata)
    if tag is not None:
        return tag.checkpoint == whose.checkpoint
    if finished is None:  # a new partition: the query begins with its log
        return commit.offset == 0
    # Without tags only this is known: a late commit stands where a batch ended.
    is_an_end = any(ends.get(partition) == commit.offset for ends in standing.ends)
    return is_an_end and not (whose.keeps_tags or commit.metadata)


def _described(whose: Whose, standing: CheckpointState, moved: Mapping[TopicPartition, Commit]) -> str:
    shown = names(
        f"{partition}: checkpoint {standing.finished.get(partition, 'none')}, group {commit.offset}"
        for partition, commit in sorted(moved.items())
    )
    return (
        f"The checkpoint in {whose.where} and the group {whose.group!r} have different offsets "
        f"({shown}): {ended(_why(whose, standing, moved))} To continue at the group's offsets, start "
        "with a new checkpoint: new_checkpoint=True, or --new-checkpoint. To continue at the checkpoint's "
        "offsets, move the group there: ehkafka offsets reset."
    )


def _why(whose: Whose, standing: CheckpointState, moved: Mapping[TopicPartition, Commit]) -> str:
    tags = (Tag.read(commit.metadata) for commit in moved.values())
    others = sorted({tag.run for tag in tags if tag is not None and tag.checkpoint != whose.checkpoint})
    who = f"another run on Spark ({others[0]})" if others else "a consumer"
    if all(commit.offset > standing.finished.get(partition, 0) for partition, commit in moved.items()):
        return f"{who} has handled records since the checkpoint, and they would be handled again"
    return f"{who if others else 'another client'} has moved the group's commits since the checkpoint"
