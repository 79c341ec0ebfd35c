"""The mirror: an app's commits in Blob Storage, as the SDKs and KEDA read them, written only if unchanged."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from _live.probe import NotTried, Observed, Probe, differs, ok
from ehkafka.checkpoints.layout import Layout, namespace_of
from ehkafka.checkpoints.stores.store import StoreConflictError

if TYPE_CHECKING:
    import ehkafka
    from _live.site import Site
    from ehkafka.checkpoints.stores.store import CheckpointStore, StoredBlob

COUNT = 20
LIMIT_S = 40.0


def backup(site: Site) -> Observed:
    """Handle records with a mirror, stop, and compare each blob with its commit."""
    mirror = site.given.mirror
    if mirror is None:
        raise NotTried("no container was given: --container, or EHKAFKA_MIRROR_CONTAINER")
    group = site.group("mirror")
    layout = Layout(mirror.namespace or namespace_of(site.endpoint.name), group)
    prefix = layout.prefix(site.topic, "checkpoint")
    site.ledger.add("blobs", prefix.removesuffix("checkpoint/"))
    ends = _handled(site, group)
    store = mirror.open_store()
    site.closed_at_the_end(store.close)
    blobs = {int(blob.name.rpartition("/")[2]): blob for blob in store.list_blobs(prefix)}
    numbers = {number: int(blob.metadata.get("sequencenumber", -2)) for number, blob in blobs.items()}
    facts = {"sequence_numbers": numbers, "next_offsets": ends}
    wrong = [number for number, end in ends.items() if numbers.get(number) != end - 1]
    if wrong:
        return differs(f"the blobs of partitions {wrong} do not show the commit", **facts)
    if not _keeps_versions(store, blobs[min(ends)]):
        return differs("a blob was replaced though it had changed since it was read", **facts)
    return ok(f"{len(ends)} blobs show the commits; one that has changed is not replaced", **facts)


def _handled(site: Site, group: str) -> dict[int, int]:
    """Return the next offset of each partition of which records were handled."""
    ends: dict[int, int] = {}
    lock = threading.Lock()
    mark = site.ledger.run.encode() + b" mirror"
    count = 0
    app = site.app(group, mirror=site.given.mirror)

    @app.handler(site.topic, workers=4)
    def handle(record: ehkafka.Record) -> None:
        nonlocal count
        with lock:
            ends[record.partition()] = max(ends.get(record.partition(), 0), record.offset() + 1)
            count += (record.value() or b"") == mark

    with site.running(app):
        site.produce(site.topic, [(b"key-%d" % number, mark) for number in range(COUNT)])
        if not site.wait(lambda: count >= COUNT, LIMIT_S):
            raise NotTried(f"{count} of {COUNT} records were handled within {LIMIT_S:.0f} s")
    return ends


def _keeps_versions(store: CheckpointStore, blob: StoredBlob) -> bool:
    """Write a blob, then again with the version from before: that must be refused."""
    content = {"metadata": blob.metadata, "body": b""}
    store.write(blob.name, **content, expected=blob.version)  # type: ignore[arg-type]
    try:
        store.write(blob.name, **content, expected=blob.version)  # type: ignore[arg-type]
    except StoreConflictError:
        return True
    return False


PROBES = (
    Probe(
        name="mirror",
        documented="Checkpoints have the metadata sequencenumber; a write with an old ETag is refused",
        link="https://learn.microsoft.com/rest/api/storageservices/"
        "specifying-conditional-headers-for-blob-service-operations",
        function=backup,
        expected_s=15.0,
        limit_s=90.0,
        records=COUNT,
        kilobytes=2,
        creates="a group, and blobs below a name of its own in the container",
    ),
)
