"""What checkpoints of other clients say, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.formats.choose import CheckpointFilter, choose, read_store
from ehkafka.checkpoints.formats.folder import BlobList, FolderStore
from ehkafka.checkpoints.formats.formats import BadBlob, Format, FoundBlob, found_in
from ehkafka.checkpoints.formats.write import write_checkpoint
from ehkafka.checkpoints.mirror.body import checkpoint_body, checkpoint_metadata
from ehkafka.checkpoints.stores.store import StoreConflictError, StoredBlob, StoreMissingError
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST = "home.servicebus.windows.net"
SDK = f"{HOST}/readings/$default/checkpoint"
NET = {
    "PartitionId": "3",
    "Owner": "host-1",
    "Token": "t",
    "Epoch": 7,
    "Offset": "859196",
    "SequenceNumber": 41,
}
PYTHON = {
    "partition_id": "3",
    "owner": "host-1",
    "token": "t",
    "epoch": 7,
    "offset": "859196",
    "sequence_number": 41,
}
GO = {
    "partitionID": "3",
    "epoch": 7,
    "owner": "host-1",
    "checkpoint": {"offset": "859196", "sequenceNumber": 41, "enqueueTime": "2026-01-01T00:00:00Z"},
    "state": "leased",
    "token": "t",
}
OURS = Checkpoint(next_offset=42, owner="app-1")


def blob(name: str, body: Any = b"", metadata: Mapping[str, str] | None = None) -> StoredBlob:
    """Return a blob as a store would."""
    return StoredBlob(
        name, "1", metadata or {}, body if isinstance(body, bytes) else json.dumps(body).encode()
    )


FORMS = {
    "the current SDKs": (
        blob(f"{SDK}/3", metadata={"sequencenumber": "41", "offset": "859196"}),
        Format.SDK,
    ),
    "capitals, as some tools copy them": (
        blob(f"{SDK}/3", metadata={"SequenceNumber": "41", "Offset": "no offset"}),
        Format.SDK,
    ),
    "our mirror": (blob(f"{SDK}/3", checkpoint_body(OURS), checkpoint_metadata(OURS)), Format.EHKAFKA),
    "our mirror, written over by an SDK": (
        blob(f"{SDK}/3", checkpoint_body(Checkpoint(next_offset=9)), {"sequencenumber": "41", "offset": "8"}),
        Format.SDK,
    ),
    "EventProcessorHost of .NET": (blob("$Default/3", NET), Format.EPH),
    "the same with a prefix": (blob("apps/prod-$Default/3", NET), Format.EPH),
    "Azure Functions": (blob(f"{HOST}/Readings/$Default/3", NET), Format.FUNCTIONS),
    "EventProcessorHost of Python": (blob("$default/3", PYTHON), Format.EPH_PYTHON),
    "the same without a group": (blob("3", PYTHON), Format.EPH_PYTHON),
    "Go before 1.0": (blob("3", GO), Format.GO),
    "Dapr": (blob("dapr-readings-$default-3", GO), Format.DAPR),
    "a byte order mark before it": (
        blob("$Default/3", b"\xef\xbb\xbf" + json.dumps(NET).encode()),
        Format.EPH,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_position_is_the_sequence_number_and_one(name: str) -> None:
    """Whichever SDK wrote it, the group goes on at the next event."""
    given, form = FORMS[name]
    found = found_in(given)
    assert isinstance(found, FoundBlob)
    assert (found.partition, found.sequence_number, found.next_offset) == (3, 41, 42)
    assert found.origin.format is form


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("$Default/3", NET | {"Offset": "", "SequenceNumber": 0}),
        ("$Default/3", NET | {"Offset": None, "SequenceNumber": 0}),
        ("$Default/3", PYTHON | {"offset": None, "sequence_number": None}),
        ("3", GO | {"checkpoint": {"offset": "-1", "sequenceNumber": 0}}),
        ("3", GO | {"checkpoint": {"offset": "@latest", "sequenceNumber": 0}}),
        ("3", GO | {"checkpoint": None}),
    ],
)
def test_a_lease_without_a_checkpoint_is_no_position(name: str, body: Any) -> None:
    """It is written before the first checkpoint: the first event is not taken for processed."""
    found = found_in(blob(name, body))
    assert isinstance(found, FoundBlob)
    assert (found.partition, found.next_offset) == (3, None)


def test_a_first_event_that_was_processed_counts() -> None:
    """Sequence number 0 with an offset is a checkpoint, and one above 0 without."""
    found = found_in(blob("$Default/3", NET | {"Offset": "0", "SequenceNumber": 0}))
    assert isinstance(found, FoundBlob)
    assert found.next_offset == 1
    written = write_checkpoint(
        Format.EPH, namespace=HOST, hub="readings", group="$Default", partition=3, next_offset=42
    )
    found = found_in(StoredBlob(written.name, "1", written.metadata, written.body))
    assert isinstance(found, FoundBlob)
    assert found.next_offset == 42


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (blob(f"{SDK}/3", metadata={"offset": "8"}), "no sequence number"),
        (blob(f"{SDK}/3", metadata={"sequencenumber": "", "offset": "8"}), "no sequence number"),
        (blob(f"{SDK}/3", metadata={"sequencenumber": "None", "offset": "8"}), "no sequence number"),
        (blob(f"{SDK}/3", metadata={"sequencenumber": "4 1"}), "'4 1'"),
        (blob(f"{SDK}/3", metadata={"sequencenumber": "\u0664\u0661"}), "sequencenumber is"),
        (blob(f"{SDK}/3", metadata={"sequencenumber": str(2**63 - 1)}), "sequencenumber is"),
        (blob("$Default/3", b"not JSON"), "not a JSON object"),
        (blob("$Default/3", b"[" * 5000), "not a JSON object"),
        (blob("$Default/3", b"[1]"), "not a JSON object"),
        (blob("$Default/3", b"{" + b" " * 70_000 + b"}"), "not a JSON object"),
        (blob("$Default/3", {"x": 1}), "none of a checkpoint"),
        (
            blob("$Default/3", NET | {"PartitionId": "4"}),
            "partition '4', but its blob name names partition 3",
        ),
        (blob("$Default/3", NET | {"SequenceNumber": -5}), "sequence number is -5"),
        (blob("$Default/3", NET | {"SequenceNumber": True}), "sequence number is True"),
        (blob("$Default/3", NET | {"SequenceNumber": 1.5}), "sequence number is 1.5"),
        (blob("$Default/3", NET | {"SequenceNumber": ["x" * 500]}), "…"),
    ],
)
def test_what_is_no_position_says_why(given: StoredBlob, reason: str) -> None:
    """The partition is known by the name, and the reason is one short line."""
    found = found_in(given)
    assert isinstance(found, BadBlob)
    assert found.partition == 3
    assert reason in found.reason
    assert len(found.reason) < 120


@pytest.mark.parametrize(
    "name",
    [
        f"{HOST}/readings/$default/ownership/3",
        f"{HOST}/readings/$default/ehkafka/owner/3",
        "notes.txt",
        "readings/abc",
        "$Default/-1",
        "$Default/٣",
        "x" * 2000 + "/3",
        "",
    ],
)
def test_other_blobs_are_passed_over(name: str) -> None:
    """Ownership, and whatever lies there next to checkpoints."""
    assert found_in(blob(name, NET, {"ownerid": "x"})) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["SequenceNumber", "Offset", "PartitionId", "checkpoint", "partitionID", "x"])
            | st.sampled_from(
                ["sequence_number", "sequenceNumber", "offset", "partition_id", "sequencenumber"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(
    st.sampled_from(["3", "$Default/3", f"{SDK}/3", "dapr-a-b-3", f"{HOST}/a/b/3"]) | st.text(max_size=20),
    JSON.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=60),
    st.dictionaries(st.sampled_from(["sequencenumber", "offset"]), st.text(max_size=5), max_size=2),
)
def test_nothing_in_a_blob_raises(name: str, body: bytes, metadata: dict[str, str]) -> None:
    """Whatever is in it: a position that a commit can have, or a reason, or nothing."""
    found = found_in(StoredBlob(name, "1", metadata, body))
    if isinstance(found, FoundBlob) and found.next_offset is not None:
        assert 0 <= found.next_offset <= 2**63 - 1


def stored(folder: Path, *blobs: StoredBlob) -> FolderStore:
    """Write blobs as files."""
    there = FolderStore(folder)
    for one in blobs:
        there.write(one.name, metadata=one.metadata, body=one.body, expected=None)
    return there


def sdk(partition: int, number: int, hub: str = "readings", group: str = "$default") -> StoredBlob:
    """Return a checkpoint of a current SDK."""
    name = f"{HOST}/{hub}/{group}/checkpoint/{partition}"
    return blob(name, metadata={"sequencenumber": str(number), "offset": "1"})


def test_a_folder_holds_what_a_container_held(tmp_path: Path) -> None:
    """Metadata is the file's JSON where the blob had no body; a link is no file; a list says the same."""
    folder = stored(tmp_path / "c", sdk(0, 4), sdk(1, 5), sdk(0, 9, hub="other"), blob("readme.md", b"x"))
    (tmp_path / "c" / SDK / "2").symlink_to(tmp_path / "c" / SDK / "1")
    chosen = choose(read_store(folder), CheckpointFilter(hub="Readings"), folder.name)
    assert {number: found.next_offset for number, found in chosen.positions.items()} == {0: 5, 1: 6}
    assert str(chosen.origin) == f"{HOST}/readings/$default (sdk)"
    listing = tmp_path / "blobs.json"
    listing.write_text(json.dumps([{"name": f"{SDK}/1", "metadata": {"sequencenumber": "5"}}, {"x": 1}, 3]))
    chosen = choose(read_store(BlobList(listing)), CheckpointFilter(hub="readings"), "blobs.json")
    assert chosen.positions[1].next_offset == 6


def test_several_sets_are_refused_unless_one_is_named(tmp_path: Path) -> None:
    """The error lists them; a group, a namespace, a format or a prefix decides."""
    folder = stored(
        tmp_path, sdk(0, 4), sdk(0, 7, group="billing"), blob("$Default/0", NET | {"PartitionId": "0"})
    )
    with pytest.raises(
        ConfigurationError, match=r"several sets.*\$default \(sdk\).*billing \(sdk\).*--from-group"
    ):
        choose(read_store(folder), CheckpointFilter(hub="readings"), "it")
    billing = CheckpointFilter(hub="readings", group="Billing", namespace="home")
    assert choose(read_store(folder), billing, "it").positions[0].next_offset == 8
    eph = CheckpointFilter(hub="readings", format=Format.EPH)
    assert choose(read_store(folder), eph, "it").positions[0].next_offset == 42
    by_prefix = CheckpointFilter(hub="readings", prefix="$Default/")
    assert choose(read_store(folder, "$Default/"), by_prefix, "it").positions[0].next_offset == 42


def test_our_own_mirror_is_no_choice_beside_others(tmp_path: Path) -> None:
    """In the same container as an SDK's it is passed over, unless its group is named."""
    mirror = StoredBlob(
        f"{HOST}/readings/app/checkpoint/0", "1", checkpoint_metadata(OURS), checkpoint_body(OURS)
    )
    found = [found_in(sdk(0, 4)), found_in(mirror)]
    chosen = choose([one for one in found if one], CheckpointFilter(hub="readings"), "it")
    assert chosen.origin.format is Format.SDK
    chosen = choose([one for one in found if one], CheckpointFilter(hub="readings", group="app"), "it")
    assert chosen.origin.format is Format.EHKAFKA


def test_nothing_that_fits_says_what_is_there(tmp_path: Path) -> None:
    """Which sets there are, or that there are none."""
    folder = stored(tmp_path / "c", sdk(0, 4))
    with pytest.raises(
        ConfigurationError, match=r"no checkpoint of any namespace/orders.*readings/\$default"
    ):
        choose(read_store(folder), CheckpointFilter(hub="orders"), "it")
    with pytest.raises(ConfigurationError, match="name of the container"):
        choose(read_store(stored(tmp_path / "d", blob("x", b"y"))), CheckpointFilter(hub="orders"), "it")
    with pytest.raises(StoreMissingError, match="does not exist"):
        list(read_store(FolderStore(tmp_path / "nowhere")))


def test_two_checkpoints_of_one_partition_are_refused() -> None:
    """Either may be right; both are named."""
    twice = [
        found_in(blob("g/1", NET | {"PartitionId": "1"})),
        found_in(blob("g/01", NET | {"PartitionId": None})),
    ]
    with pytest.raises(ConfigurationError, match="'g/1' and 'g/01'"):
        choose([one for one in twice if one], CheckpointFilter(hub="readings"), "it")


@pytest.mark.parametrize("text", ["", "{}", "[", "nothing"])
def test_a_list_that_is_none_says_how_to_make_one(tmp_path: Path, text: str) -> None:
    """The command that prints it is in the message."""
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(ConfigurationError, match="az storage blob list --include m"):
        list(read_store(BlobList(tmp_path / "list.json")))


@pytest.mark.parametrize("form", [Format.SDK, Format.EPH, Format.FUNCTIONS])
def test_what_is_written_is_read_again(tmp_path: Path, form: Format) -> None:
    """The sequence number is that of the last processed event, and no offset is made up."""
    written = write_checkpoint(
        form, namespace=HOST, hub="readings", group="$Default", partition=3, next_offset=42
    )
    folder = FolderStore(tmp_path)
    version = folder.write(written.name, metadata=written.metadata, body=written.body, expected=None)
    (found,) = read_store(folder)
    assert isinstance(found, FoundBlob)
    assert (found.next_offset, found.offset, found.origin.format) == (42, "", form)
    with pytest.raises(StoreConflictError):
        folder.write(written.name, metadata={}, body=b"x", expected=None)
    folder.write(written.name, metadata={}, body=b"x", expected=version)
