"""The JSON in our blobs, and the blob's metadata, which others read.

Pure, and safe with any bytes: reading never raises and is bounded in work. A
checkpoint's metadata is that of the current SDKs: `sequencenumber` is the last *processed* one, so one
below next_offset. `offset` stays empty on purpose: it is Event Hubs' own position, which Kafka does not
show, and a sequence number in its place would let another reader resume somewhere else.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote, unquote

import orjson

from ehkafka.checkpoints.checkpoint import Checkpoint, CommitMetadata, Ownership, Ranges
from ehkafka.progress.metadata import facts_in_word, facts_word

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
OFFSET_MAX = 2**63 - 1
LEADER_EPOCH_MAX = 2**31 - 1
# What we write stays far below both: a body of a megabyte has some 40 000 ranges.
BODY_BYTES_MAX = 4 * 1024 * 1024
RANGES_MAX = 50_000
OWNER_CHARACTERS_MAX = 256
# No blob can have a longer name: whatever goes beyond is no name of ours, nor equal to one.
NAME_CHARACTERS_MAX = 1024
# The end of the year 9999, where Python's calendar ends: all below can be shown.
MILLISECONDS_MAX = 253_402_300_799_999
_NUMBERS = {
    "finished_leader_epoch": LEADER_EPOCH_MAX,
    "leader_epoch": LEADER_EPOCH_MAX,
}


def checkpoint_body(checkpoint: Checkpoint) -> bytes:
    """Return a checkpoint as our JSON, its ranges cut to `RANGES_MAX` from the lowest on."""
    said = {one.name: getattr(checkpoint, one.name) for one in fields(checkpoint)}
    said["finished"] = checkpoint.finished[:RANGES_MAX]
    said["facts"] = facts_word(checkpoint.next_offset, checkpoint.facts)
    return orjson.dumps({"ehkafka": VERSION, **said})


def checkpoint_metadata(checkpoint: Checkpoint) -> dict[str, str]:
    """Return what the SDK of .NET and KEDA read of a checkpoint."""
    return {
        "sequencenumber": str(checkpoint.next_offset - 1),
        "offset": "",
        "clientidentifier": checkpoint.owner,
    }


def read_checkpoint(body: bytes) -> Checkpoint | None:
    """Read our JSON; None when it is another program's, of a newer version, or broken."""
    found = _ours(body)
    if found is None:
        return None
    next_offset = _number(found, "next_offset", OFFSET_MAX)
    finished = _ranges(found.get("finished"), next_offset)
    if next_offset is None or finished is None:
        return None
    returned = found.get("metadata_returned")
    return Checkpoint(
        next_offset=next_offset,
        finished=finished,
        epoch=_number(found, "epoch", OFFSET_MAX) or 0,
        owner=_text(found, "owner"),
        written_at_ms=_number(found, "written_at_ms", MILLISECONDS_MAX) or 0,
        group=_name(found, "group"),
        topic=_name(found, "topic"),
        facts=facts_in_word(found.get("facts"), next_offset),
        commit_metadata=_commit_metadata(found.get("commit_metadata")),
        metadata_returned=returned if isinstance(returned, bool) else None,
        **{name: _number(found, name, most) for name, most in _NUMBERS.items()},
    )


def ownership_body(ownership: Ownership) -> bytes:
    """Return an ownership as our JSON."""
    return orjson.dumps(
        {
            "ehkafka": VERSION,
            "owner": ownership.owner,
            "epoch": ownership.epoch,
            "at_ms": ownership.at_ms,
            "released": ownership.is_released,
            "group": ownership.group,
            "topic": ownership.topic,
        }
    )


def ownership_metadata(ownership: Ownership) -> dict[str, str]:
    """Return the same as metadata, so that one listing shows all owners."""
    return {
        "owner": ownership.owner,
        "epoch": str(ownership.epoch),
        "at_ms": str(ownership.at_ms),
        "released": "true" if ownership.is_released else "false",
        # Metadata are ASCII, and a group may have any name.
        "group": quote(ownership.group, safe=""),
        "topic": quote(ownership.topic, safe=""),
    }


def read_ownership(metadata: Mapping[str, str]) -> Ownership | None:
    """Read the metadata of an owner's blob; None when it is not ours or broken."""
    epoch, at_ms = _digits(metadata.get("epoch")), _digits(metadata.get("at_ms"))
    owner = metadata.get("owner", "")
    if not owner or epoch is None or at_ms is None or at_ms > MILLISECONDS_MAX:
        return None
    return Ownership(
        owner=_printable(owner),
        epoch=epoch,
        at_ms=at_ms,
        is_released=metadata.get("released") == "true",
        group=unquote(metadata.get("group", ""))[: NAME_CHARACTERS_MAX + 1],
        topic=unquote(metadata.get("topic", ""))[: NAME_CHARACTERS_MAX + 1],
    )


def _ours(body: bytes) -> dict[str, Any] | None:
    if len(body) > BODY_BYTES_MAX:
        return None
    try:
        found = orjson.loads(body)
    except ValueError:  # no JSON, or nested too deeply
        return None
    version = found.get("ehkafka") if isinstance(found, dict) else None
    return found if version == VERSION and not isinstance(version, bool) else None


def _number(found: Mapping[str, object], name: str, most: int) -> int | None:
    value = found.get(name)
    return value if type(value) is int and 0 <= value <= most else None


def _commit_metadata(found: Any) -> CommitMetadata | None:
    return next((one for one in get_args(CommitMetadata) if one == found), None)


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    return _printable(value) if isinstance(value, str) else ""


def _name(found: Mapping[str, object], name: str) -> str:
    # As it is: it is compared, and shown by its repr alone.
    value = found.get(name)
    return value[: NAME_CHARACTERS_MAX + 1] if isinstance(value, str) else ""


def _printable(text: str) -> str:
    # It is shown in logs and tables: no control characters, no novels.
    return "".join(c if c.isprintable() else "?" for c in text[:OWNER_CHARACTERS_MAX])


def _digits(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdecimal() and len(text) <= 19):
        return None
    return int(text)


def _ranges(found: object, above: int | None) -> Ranges | None:
    """Return ranges that ascend and lie above next_offset; one that does not makes all of them untrue."""
    if not isinstance(found, list) or above is None or len(found) > RANGES_MAX:
        return None
    ranges: list[tuple[int, int]] = []
    least = above
    for pair in found:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)):
            return None
        start, end = pair
        if not least <= start < end <= OFFSET_MAX:
            return None
        ranges.append((start, end))
        least = end
    return tuple(ranges)
