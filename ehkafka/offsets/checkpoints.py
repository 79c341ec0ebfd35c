"""Positions from checkpoints into a group, and from a group into checkpoints.

`wanted_positions` and `exports` are pure. A partition that cannot be brought over is named, never left out
silently.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ehkafka.checkpoints.formats.formats import FoundBlob, found_in
from ehkafka.checkpoints.formats.write import write_checkpoint
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.stores.store import StoreError
from ehkafka.offsets.plan import NO_PARTITION
from ehkafka.wording.line import records

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.checkpoints.formats.choose import Chosen
    from ehkafka.checkpoints.formats.formats import Format
    from ehkafka.checkpoints.formats.write import BlobToWrite
    from ehkafka.checkpoints.stores.store import CheckpointStore
    from ehkafka.offsets.view import PartitionView

LEASE_S = 60.0
"""An SDK renews its ownership every 10 s and takes it for lost after a minute or less."""


@dataclass(frozen=True, slots=True)
class WantedPositions:
    """What checkpoints say for a topic: positions, why a partition is kept, what cannot be brought over."""

    positions: dict[int, int] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    def to_verify(self, chosen: Chosen, views: Mapping[int, PartitionView]) -> dict[int, Checkpoint]:
        """Return our own mirror's checkpoints that know an id or a record to tell the log by."""
        ours = {number: chosen.positions[number].checkpoint for number in self.positions}
        return {
            number: one
            for number, one in ours.items()
            # Beyond the log's end it is refused anyway, or clamped.
            if one is not None
            and (one.facts.witness or one.facts.topic_id) is not None
            and one.next_offset <= views[number].log.end
        }

    def refuse_other_logs(self, reasons: Mapping[int, str]) -> None:
        """Refuse what was written for another log of the same name."""
        for number, reason in reasons.items():
            del self.positions[number]
            self.refused[number] = f"the mirror belongs to another log: {reason}"


def wanted_positions(chosen: Chosen, partitions: Collection[int], only: Collection[int]) -> WantedPositions:
    """Return what is to be committed; `only` leaves all other partitions as they are."""
    wanted = WantedPositions(refused={n: NO_PARTITION for n in only if n not in partitions})
    for partition in partitions:
        if only and partition not in only:
            wanted.notes[partition] = "kept: not among --partition"
        elif partition not in chosen.positions:
            wanted.notes[partition] = "kept: no checkpoint"
    for partition, found in chosen.positions.items():
        if only and partition not in only:
            continue
        if partition not in partitions:
            wanted.refused[partition] = f"has checkpoint {found.blob!r}, but the topic has no such partition"
        elif found.next_offset is None:
            wanted.notes[partition] = "kept: nothing was processed yet"
        else:
            wanted.positions[partition] = found.next_offset
            wanted.notes[partition] = f"sequence number {found.sequence_number}"
    for broken in chosen.unreadable:
        if broken.partition is not None and (not only or broken.partition in only):
            wanted.positions.pop(broken.partition, None)
            wanted.refused[broken.partition] = f"checkpoint {broken.blob!r}: {broken.reason}"
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlace:
    """As whose checkpoints positions are written; `group` is the hub's consumer group."""

    form: Format
    namespace: str
    hub: str
    group: str
    # Stands before the group in EventProcessorHost's names.
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """One partition's checkpoint to write; `written` is None where there is nothing to write, see `note`."""

    partition: int
    next_offset: int | None
    written: BlobToWrite | None
    # What the container says now, None where it says nothing.
    before: int | None = None
    note: str = ""
    version: str | None = None


def exports(
    views: Mapping[int, PartitionView], place: ExportPlace, *, only: Collection[int] = ()
) -> list[Export]:
    """Return what to write for each partition, before a look at what is there."""
    return [_export(view, place) for number, view in sorted(views.items()) if not only or number in only]


def _export(view: PartitionView, place: ExportPlace) -> Export:
    offset = view.committed
    if not offset:
        why = "the group has no commit" if offset is None else "nothing was processed yet"
        return Export(view.partition, offset, None, note=f"not written: {why}")
    if offset > view.log.end:
        return Export(view.partition, offset, None, note=f"not written: the commit is {view.problem}")
    written = write_checkpoint(
        place.form,
        namespace=place.namespace,
        hub=place.hub,
        group=place.group,
        partition=view.partition,
        next_offset=offset,
        prefix=place.prefix,
    )
    above = view.finished_above
    again = f"{records(above)} finished out of order, to be handled again" if above else ""
    note = "; ".join(filter(None, (view.problem, again)))
    return Export(view.partition, offset, written, note=note)


def compared(planned: list[Export], store: CheckpointStore) -> list[Export]:
    """Return the same with what the store has in each place now. Raises `StoreError`."""
    return [_compared(export, store) for export in planned]


def _compared(export: Export, store: CheckpointStore) -> Export:
    if export.written is None or export.next_offset is None:
        return export
    there = store.read(export.written.name)
    if there is None:
        return export
    found = found_in(there)
    is_readable = isinstance(found, FoundBlob)
    before = found.next_offset if isinstance(found, FoundBlob) else None
    if before == export.next_offset:
        # Not written again: an offset of the SDK's own would be lost for nothing.
        return replace(export, written=None, before=before, note="up to date")
    if read_checkpoint(there.body) is not None:
        # Without its body an app could not write it any more: it leaves foreign blobs alone.
        note = "not written: the mirror of an ehkafka app lies there"
        return replace(export, written=None, before=before, note=note)
    notes = [export.note, "" if is_readable else "replaces an unreadable checkpoint"]
    if before is not None and before > export.next_offset:
        notes.append(f"goes back by {before - export.next_offset}")
    if isinstance(found, FoundBlob) and found.offset:
        notes.append("the SDK's own offset in it is lost")
    return replace(export, before=before, note="; ".join(filter(None, notes)), version=there.version)


def write_exports(planned: list[Export], store: CheckpointStore) -> dict[int, int | None]:
    """Write them and return what is read back. Raises `StoreError`, of a conflict too."""
    back: dict[int, int | None] = {}
    for export in planned:
        if export.written is None:
            continue
        name, metadata, body = export.written
        try:
            store.write(name, metadata=metadata, body=body, expected=export.version)
            there = store.read(name)
        except StoreError as error:
            done = f"{len(back)} checkpoints have been written. To see the others, run without --yes."
            raise type(error)(f"{error} {done}") from None
        found = None if there is None else found_in(there)
        back[export.partition] = found.next_offset if isinstance(found, FoundBlob) else None
    return back


def running_owners(store: CheckpointStore, namespace: str, hub: str, group: str, now_ms: int) -> list[int]:
    """Return the partitions that an SDK's consumers still own: it is about to move its checkpoints."""
    owned = []
    for blob in store.list_blobs(Layout(namespace, group).prefix(hub, "ownership")):
        number = blob.name.rpartition("/")[2]
        is_recent = blob.modified_at_ms is not None and now_ms - blob.modified_at_ms < LEASE_S * 1000
        if is_recent and blob.metadata.get("ownerid") and number.isascii() and number.isdecimal():
            owned.append(int(number))
    return sorted(owned)
