"""Tells our blob of a partition from another program's in its place, and whether its ranges count.

Two things get there. Blobs have lower-case names, so groups and topics that differ in case alone share them:
the exact names stand inside. And an SDK that checkpoints where our blob lies sets its metadata and leaves our
body: the blob is ours only while its metadata are what we write with that body. What is not ours is
neither used nor overwritten. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ehkafka.checkpoints.mirror.body import checkpoint_metadata, read_checkpoint, read_ownership

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checkpoints.checkpoint import Checkpoint, Ownership
    from ehkafka.checkpoints.stores.store import StoredBlob

_DIGITS_MAX = 19


class Foreign(NamedTuple):
    """A blob of another program. `reason` follows its name in a sentence.

    `is_contested`: there is a position of ours below another client's, and it is unknown which one is right.
    """

    blob: str
    reason: str
    is_contested: bool = False


def checkpoint_in(blob: StoredBlob, group: str, topic: str) -> Checkpoint | Foreign:
    """Return the checkpoint of that group and topic, or why it is none."""
    checkpoint = read_checkpoint(blob.body)
    if checkpoint is None:
        return Foreign(blob.name, "was written by another program")
    if (reason := _other_names(checkpoint, group, topic)) is not None:
        return Foreign(blob.name, reason)
    if not agrees(checkpoint, blob.metadata):
        theirs = _position(blob.metadata)
        return Foreign(
            blob.name,
            f"has the checkpoint of an SDK, which resumes at {theirs}, instead of ehkafka's, "
            f"{checkpoint.next_offset}",
            is_contested=True,
        )
    return checkpoint


def foreign_owner(blob: StoredBlob, group: str, topic: str) -> Foreign | None:
    """Return why an owner's blob is not of that group and topic; None where it is, or has no owner."""
    ownership = read_ownership(blob.metadata)
    reason = None if ownership is None else _other_names(ownership, group, topic)
    return None if reason is None else Foreign(blob.name, reason)


def has_names(found: Checkpoint | Ownership, group: str, topic: str) -> bool:
    """Tell whether it is of that group and topic, as far as it says."""
    return found.group in ("", group) and found.topic in ("", topic)


def agrees(checkpoint: Checkpoint, metadata: Mapping[str, str]) -> bool:
    """Tell whether metadata are those that were written with this checkpoint's body.

    All that we write is compared: an SDK may stand where we do, and its own offset must not be wiped. A
    store that keeps no metadata at all has none that an SDK could have set.
    """
    ours = checkpoint_metadata(checkpoint)
    return not metadata or all(metadata.get(name, "") == value for name, value in ours.items())


def _other_names(found: Checkpoint | Ownership, group: str, topic: str) -> str | None:
    if has_names(found, group, topic):
        return None
    return (
        f"is of the group {found.group!r} on the topic {found.topic!r}, not of {group!r} on {topic!r}: names "
        "that differ in case only share a blob"
    )


def _position(metadata: Mapping[str, str]) -> str:
    number = metadata.get("sequencenumber", "")
    if number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX:
        return str(int(number) + 1)
    return "an offset that Kafka does not know"


def is_copy(checkpoint: Checkpoint, next_offset: int, *, is_ours: bool | None) -> bool:
    """Tell whether the ranges of a checkpoint may be used above the group's commit of `next_offset`.

    They count for the very commit that it copies. The offset alone does not tell: who rewinds a group to the
    very offset where it stands, with a tool that knows nothing of us, commits there without metadata, and
    wants all from there on again.

    `is_ours` says who made that commit, by its metadata; None: it has none. Then it is ours only if ours had
    none, or if the service gives none back. What is not known counts as another client's: that only repeats
    records.
    """
    if checkpoint.next_offset != next_offset:
        return False
    if is_ours is None:
        return checkpoint.commit_metadata == "none" or checkpoint.metadata_returned is False
    return is_ours
