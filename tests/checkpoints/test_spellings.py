"""Groups and topics that differ in case alone, seen from outside: each shows what is its own."""

from __future__ import annotations

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint, Ownership
from ehkafka.checkpoints.formats.formats import Format, FoundBlob, found_in
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import checkpoint_body, checkpoint_metadata, ownership_metadata
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import StoredBlob
from ehkafka.offsets.compare import mirror_of
from ehkafka.offsets.owners import read_owners

CHECKPOINT = Checkpoint(next_offset=7, owner="me", group="Orders", topic="Readings")


def found(metadata: dict[str, str]) -> FoundBlob:
    """Return what a reader of all formats makes of our blob with these metadata."""
    name = Layout("ns", "Orders").name("Readings", 0)
    blob = found_in(StoredBlob(name, "1", metadata, checkpoint_body(CHECKPOINT)))
    assert isinstance(blob, FoundBlob)
    return blob


@pytest.mark.parametrize(
    ("topic", "group", "mirrored"),
    [("Readings", "Orders", {0: 7}), ("Readings", "orders", {}), ("readings", "Orders", {})],
)
def test_a_mirror_is_that_of_the_exact_names(topic: str, group: str, mirrored: dict[int, int]) -> None:
    """The blob's name has no capital letters; what stands in it decides, and is shown."""
    ours = found(checkpoint_metadata(CHECKPOINT))
    assert str(ours.origin) == "ns/Readings/Orders (ehkafka)"
    assert mirror_of([ours], "ns", topic, group) == mirrored


@pytest.mark.parametrize("offset", ["", "8589934592"])
def test_an_sdk_that_stands_where_we_do_is_an_sdk(offset: str) -> None:
    """Its metadata are not those that we write with that body: the position and its offset are its own."""
    sdk = found({"sequencenumber": "6", "offset": offset})
    assert (sdk.origin.format, sdk.next_offset, sdk.checkpoint) == (Format.SDK, 7, None)


@pytest.mark.parametrize(("group", "owners"), [("Orders", [0]), ("orders", [])])
def test_owners_are_those_of_the_exact_names(group: str, owners: list[int]) -> None:
    """Else the table would show another group's members."""
    store = MemoryStore()
    name = Layout("ns", "Orders").name("Readings", 0, "ehkafka/owner")
    ownership = Ownership(owner="me", epoch=1, at_ms=0, group="Orders", topic="Readings")
    store.write(name, metadata=ownership_metadata(ownership), body=b"", expected=None)
    assert list(read_owners(store, "ns", group, "Readings")) == owners
