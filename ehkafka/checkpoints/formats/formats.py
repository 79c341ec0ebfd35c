"""What checkpoints of other clients say: the position in a blob of any client.

Pure. A blob is hostile input: whatever is in it, the answer is a position, a blob without one, or the reason
why it cannot be read; nothing raises. `json` reads the bodies, `choose` picks the checkpoints
that are meant, `write` is the way back. Called by the commands that move checkpoints.

| format | blob | holds |
|---|---|---|
| `sdk` | `{namespace}/{hub}/{group}/checkpoint/{partition}`, lower case | metadata `sequencenumber` |
| `ehkafka` | the same | the same, and a JSON body of ours |
| `eph` | `{prefix}{group}/{partition}` | JSON of .NET's EventProcessorHost |
| `functions` | `{namespace}/{hub}/{group}/{partition}`, case as given | the same |
| `eph-python` | `{group}/{partition}` or `{partition}` | JSON with Python's names |
| `go` | `{partition}` | JSON of the Go SDK before 1.0 |
| `dapr` | `dapr-{hub}-{group}-{partition}` | the same |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ehkafka.checkpoints.formats.json import MISSING, JsonForm, NoNumberError, read_body, whole_number
from ehkafka.checkpoints.layout import NAME_CHARACTERS_MAX, place_of
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.mirror.foreign import agrees

if TYPE_CHECKING:
    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.checkpoints.formats.json import Body
    from ehkafka.checkpoints.layout import BlobName
    from ehkafka.checkpoints.stores.store import StoredBlob

SEQUENCE_NUMBER = "sequencenumber"
OFFSET = "offset"
CLIENT = "clientidentifier"
# What our mirror and .NET write before the first record is done.
_NOTHING_YET = {"-1", str(-(2**63))}
# The way clients say "from the beginning" or "from the end": no record was processed yet.
_NO_PLACE = {"-1", "@latest"}
_PARTITION = re.compile(r"\d{1,5}", re.ASCII)
_DAPR = "dapr-"


class Format(StrEnum):
    """Who wrote a checkpoint."""

    SDK = "sdk"
    EHKAFKA = "ehkafka"
    EPH = "eph"
    FUNCTIONS = "functions"
    EPH_PYTHON = "eph-python"
    GO = "go"
    DAPR = "dapr"


@dataclass(frozen=True, slots=True)
class BlobOrigin:
    """Whose checkpoints these are. None and empty where the blob's name does not tell."""

    format: Format
    namespace: str | None = None
    hub: str | None = None
    group: str | None = None
    # All that stands before the partition, where it cannot be distinguished.
    folder: str = ""

    def __str__(self) -> str:
        names = [name for name in (self.namespace, self.hub, self.group) if name]
        place = "/".join(names) or self.folder.rstrip("/") or "the container's root"
        return f"{place} ({self.format})"


@dataclass(frozen=True, slots=True)
class FoundBlob:
    """A checkpoint. `sequence_number` is that of the last processed event; None: none was processed."""

    blob: str
    origin: BlobOrigin
    partition: int
    sequence_number: int | None
    # The SDK's own offset, which Kafka does not know.
    offset: str | None = None
    client: str | None = None
    modified_at_ms: int | None = None
    # Where it is our own mirror: all that it says.
    checkpoint: Checkpoint | None = None

    @property
    def next_offset(self) -> int | None:
        """The Kafka offset to go on at."""
        return None if self.sequence_number is None else self.sequence_number + 1


@dataclass(frozen=True, slots=True)
class BadBlob:
    """A blob that has a checkpoint's place and holds none; `reason` says what was seen."""

    blob: str
    origin: BlobOrigin
    partition: int | None
    reason: str


def may_hold(name: str) -> bool:
    """Tell by its name whether a blob is worth reading: a listing does not bring bodies."""
    place = place_of(name)
    return _may_be_checkpoint(name) and (place is None or place.kind == "checkpoint")


def found_in(blob: StoredBlob) -> FoundBlob | BadBlob | None:
    """Return what a blob says of a position; None for a blob that is no checkpoint."""
    place = place_of(blob.name)
    if place is not None:
        return _in_metadata(blob, place) if place.kind == "checkpoint" else None
    if not _may_be_checkpoint(blob.name):
        return None
    parts = blob.name.split("/")
    if len(parts) >= 2 and parts[-2] in {"checkpoint", "ownership", "owner"}:
        return None  # nothing that any client writes at this depth
    return _in_body(blob, parts)


def _may_be_checkpoint(name: str) -> bool:
    last = name.rpartition("/")[2]
    if last.startswith(_DAPR):
        last = last.rpartition("-")[2]
    return len(name) <= NAME_CHARACTERS_MAX and _PARTITION.fullmatch(last) is not None


def _in_metadata(blob: StoredBlob, place: BlobName) -> FoundBlob | BadBlob:
    metadata = {str(name).lower(): str(value) for name, value in blob.metadata.items()}
    body = read_body(blob.body)
    if body is not None and body.form is JsonForm.METADATA and SEQUENCE_NUMBER not in metadata:
        # A file has no metadata of its own: what the blob had stands in the file.
        metadata = {name.lower(): str(value) for name, value in body.fields.items()}
    folder = blob.name.rpartition("/")[0]
    origin = BlobOrigin(Format.SDK, place.namespace, place.topic, place.group, folder)
    text = metadata.get(SEQUENCE_NUMBER, "")
    offset, client = metadata.get(OFFSET), metadata.get(CLIENT)
    if not text or text == "None":
        reason = "it has no sequence number, only the SDK's own offset, which Kafka does not know"
        return BadBlob(blob.name, origin, place.partition, reason)
    try:
        number = None if text in _NOTHING_YET else whole_number(text)
    except NoNumberError as error:
        return BadBlob(blob.name, origin, place.partition, f"its sequencenumber is {error}")
    found = FoundBlob(blob.name, origin, place.partition, number, offset, client, blob.modified_at_ms)
    # An SDK that checkpoints over our mirror leaves our body where it was: only what agrees is ours.
    ours = read_checkpoint(blob.body)
    if ours is None or not agrees(ours, metadata):
        return found
    exact = replace(
        origin, format=Format.EHKAFKA, hub=ours.topic or place.topic, group=ours.group or place.group
    )
    return replace(found, origin=exact, checkpoint=ours)


_FORMATS = {
    JsonForm.NET: Format.EPH,
    JsonForm.PYTHON: Format.EPH_PYTHON,
    JsonForm.GO: Format.GO,
}


def _in_body(blob: StoredBlob, parts: list[str]) -> FoundBlob | BadBlob | None:
    origin, partition = _origin_of(parts, Format.EPH)
    body = read_body(blob.body)
    if body is None:
        return None if not blob.body else BadBlob(blob.name, origin, partition, "it is not a JSON object")
    if body.form not in _FORMATS:
        return BadBlob(blob.name, origin, partition, "its JSON is none of a checkpoint")
    origin, partition = _origin_of(parts, _FORMATS[body.form])
    if body.partition not in (MISSING, str(partition)):
        text = (
            f"its content names partition {body.partition[:20]!r}, but its blob name names partition "
            f"{partition}"
        )
        return BadBlob(blob.name, origin, partition, text)
    if _is_fresh(body):
        return FoundBlob(blob.name, origin, partition, None, body.offset, body.owner, blob.modified_at_ms)
    try:
        number = whole_number(body.sequence_number)
    except NoNumberError as error:
        return BadBlob(blob.name, origin, partition, f"its sequence number is {error}")
    return FoundBlob(blob.name, origin, partition, number, body.offset, body.owner, blob.modified_at_ms)


def _is_fresh(body: Body) -> bool:
    """Tell whether nothing was checkpointed yet: a lease is written before, with no offset and 0 or null.

    A number above 0 without an offset comes from who knows no offsets, as ehkafka, and is one. Without an
    offset it is unknown whether 0 was processed: it counts as not, so that it is not lost.
    """
    if body.offset in _NO_PLACE:
        return True
    return not body.offset and body.sequence_number in (None, 0)


def _origin_of(parts: list[str], form: Format) -> tuple[BlobOrigin, int]:
    *folders, last = parts
    folder = "/".join(folders)
    if last.startswith(_DAPR):
        # Hubs and groups may have hyphens: the two cannot be distinguished, only compared as a whole.
        head, _, number = last.rpartition("-")
        return BlobOrigin(Format.DAPR, folder=head), int(number)
    if form is Format.EPH and len(folders) == 3 and "." in folders[0]:
        namespace, hub, group = folders
        return BlobOrigin(Format.FUNCTIONS, namespace, hub, group, folder), int(last)
    return BlobOrigin(form, group=folders[-1] if folders else None, folder=folder), int(last)
