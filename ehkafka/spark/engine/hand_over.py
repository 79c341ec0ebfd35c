"""Whether a query may go on from its checkpoint, or somebody has moved the group since. Pure.

The checkpoint knows every batch; the group knows what was committed, by us after a batch, or by a consumer
in between. Called on the driver before a query starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.records import TopicPartition

    Positions = Mapping[TopicPartition, int]

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Standing:
    """What a checkpoint says: where the last finished batch ended, and where all those it remembers ended.

    `ends` includes where the first one began, if that is remembered.
    """

    finished: Positions
    ends: tuple[Positions, ...]


def check_hand_over(
    where: str,
    group: str,
    standing: Standing,
    committed: Positions,
    reset: Collection[TopicPartition] = (),
) -> Positions:
    """Return the partitions whose commit is behind the checkpoint, with where the checkpoint stands.

    That is what a driver leaves that was killed before its last commits. Raises `ConfigurationError` when the
    group is ahead, or stands where no batch has ended: then somebody else has moved it. `reset` are the
    partitions whose commit says so itself, wherever it stands.
    """
    moved = {
        partition: offset
        for partition, offset in committed.items()
        if partition in standing.finished and not _is_ours(partition, offset, standing, reset)
    }
    if moved:
        raise ConfigurationError(_said(where, group, standing, moved))
    return {
        partition: offset
        for partition, offset in standing.finished.items()
        if committed.get(partition, -1) < offset
    }


def _is_ours(
    partition: TopicPartition, offset: int, standing: Standing, reset: Collection[TopicPartition]
) -> bool:
    if offset == standing.finished[partition]:
        return True
    if offset > standing.finished[partition] or partition in reset:
        return False
    return any(ends.get(partition) == offset for ends in standing.ends)


def _said(where: str, group: str, standing: Standing, moved: Positions) -> str:
    shown = ", ".join(
        f"{partition}: checkpoint {standing.finished[partition]}, group {offset}"
        for partition, offset in sorted(moved.items())[:_NAMED]
    )
    more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
    ahead = all(offset > standing.finished[partition] for partition, offset in moved.items())
    why = (
        "a consumer has handled records in between, and they would be handled again"
        if ahead
        else "somebody has moved the group's commits since"
    )
    return (
        f"The checkpoint in {where} and the group {group!r} stand at different offsets ({shown}{more}): "
        f"{why}. To go on where the group stands, start with a new checkpoint: new_checkpoint=True, or "
        "--new-checkpoint. To go on where the checkpoint stands, move the group there: ehkafka offsets "
        "reset."
    )
