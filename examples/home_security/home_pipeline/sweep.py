"""Deletes blobs that the page no longer shows. In Azure a rule of the storage account's life cycle does this.

The newest blob of each of the local engine's partitions stays: it says where the chain ends. So does what
the sink keeps about itself. Called on one thread of the demo.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from home_pipeline.layout import MANIFEST, SUFFIX

BYTES_MAX = 2 * 2**30
"""Of this machine's disk; what is deleted for this is on the page for as long as that runs."""

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure.storage.blob import ContainerClient


def old(blobs: Iterable[tuple[str, datetime]], bound: datetime) -> list[str]:
    """Return which of these blobs (name, last written) are older than the bound and no longer needed."""
    newest: dict[str, str] = {}
    listed = sorted(blobs)
    for name, _written in listed:
        newest[name.rpartition("/")[0]] = name
    kept = {name for folder, name in newest.items() if "/batch=" not in f"/{folder}"}
    return [
        name
        for name, written in listed
        if written < bound and name not in kept and name.endswith((SUFFIX, "/" + MANIFEST))
    ]


def sweep(container: ContainerClient, keep: timedelta, bytes_max: int = BYTES_MAX) -> None:
    """Delete what is older than `keep`, or too much. Raises `AzureError`."""
    listed = [(blob.last_modified, blob.name, blob.size) for blob in container.list_blobs()]
    bound, room = datetime.now(UTC) - keep, bytes_max
    for written, _name, size in sorted(listed, reverse=True):
        room -= size
        if room < 0:
            bound = max(bound, written)
    for name in old([(name, written) for written, name, _size in listed], bound):
        container.delete_blob(name)
