"""What every checkpoint store keeps to; a new one only needs its own `store` fixture."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ehkafka.checkpoints.stores.store import StoreConflictError

if TYPE_CHECKING:
    from ehkafka.checkpoints.stores.store import CheckpointStore

NAME = "ns/hub/$default/checkpoint/0"


def test_what_is_not_there_is_none(store: CheckpointStore) -> None:
    """A missing blob is an answer, no error."""
    assert store.read(NAME) is None
    assert list(store.list_blobs("ns/")) == []


def test_what_was_written_is_read(store: CheckpointStore) -> None:
    """Body, metadata and version come back; a listing has all but the body."""
    metadata = {"sequencenumber": "41", "offset": "", "clientidentifier": "host:1"}
    body = b'{"next_offset": 42}\n\x00\xff' * 100
    version = store.write(NAME, metadata=metadata, body=body, expected=None)
    found = store.read(NAME)
    assert found is not None
    assert (found.name, found.version, dict(found.metadata), found.body) == (NAME, version, metadata, body)
    assert found.modified_at_ms is not None
    [listed] = store.list_blobs("ns/hub/")
    assert (listed.name, listed.version, dict(listed.metadata), listed.body) == (NAME, version, metadata, b"")


def test_an_empty_body_and_no_metadata_come_back_too(store: CheckpointStore) -> None:
    """The SDKs' own checkpoints have no body."""
    store.write(NAME, metadata={}, body=b"", expected=None)
    found = store.read(NAME)
    assert found is not None
    assert (found.body, dict(found.metadata)) == (b"", {})


def test_a_listing_has_what_begins_with_the_prefix_in_order(store: CheckpointStore) -> None:
    """A prefix need not end at a slash."""
    names = ["a/b/c/checkpoint/1", "a/b/c/checkpoint/10", "a/b/c/checkpoint/2", "a/b/cc/checkpoint/0", "z/1"]
    for name in reversed(names):
        store.write(name, metadata={}, body=b"", expected=None)
    assert [blob.name for blob in store.list_blobs("a/b/c")] == names[:4]
    assert [blob.name for blob in store.list_blobs("a/b/c/checkpoint/1")] == names[:2]
    assert [blob.name for blob in store.list_blobs("")] == names


def test_only_the_expected_version_is_overwritten(store: CheckpointStore) -> None:
    """Whoever has an old version, or thinks that there is none, is refused and changes nothing."""
    old = store.write(NAME, metadata={}, body=b"1", expected=None)
    new = store.write(NAME, metadata={}, body=b"2", expected=old)
    assert new != old
    for wrong in (old, None):
        with pytest.raises(StoreConflictError):
            store.write(NAME, metadata={}, body=b"3", expected=wrong)
    found = store.read(NAME)
    assert found is not None
    assert (found.body, found.version) == (b"2", new)


def test_a_blob_that_is_gone_is_not_overwritten(store: CheckpointStore) -> None:
    """A version of something that is not there is a conflict."""
    version = store.write(NAME, metadata={}, body=b"1", expected=None)
    with pytest.raises(StoreConflictError):
        store.write(f"{NAME}1", metadata={}, body=b"1", expected=version)
    assert store.read(f"{NAME}1") is None


def test_the_same_content_twice_has_two_versions(store: CheckpointStore) -> None:
    """A version is never used again: who has the first one must notice that somebody wrote."""
    first = store.write(NAME, metadata={}, body=b"1", expected=None)
    second = store.write(NAME, metadata={}, body=b"2", expected=first)
    third = store.write(NAME, metadata={}, body=b"1", expected=second)
    assert len({first, second, third}) == 3


def test_one_of_many_writers_wins(store: CheckpointStore) -> None:
    """Of writers with the same version exactly one gets through, and his content stays."""
    version = store.write(NAME, metadata={}, body=b"", expected=None)
    won: list[int] = []
    lost: list[int] = []
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        try:
            store.write(NAME, metadata={}, body=b"%d" % number, expected=version)
        except StoreConflictError:
            lost.append(number)
        else:
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.read(NAME)
    assert found is not None
    assert (len(won), len(lost)) == (1, 3)
    assert found.body == b"%d" % won[0]


def test_a_closed_store_may_be_used_again(store: CheckpointStore) -> None:
    """A mirror that stops and starts has one store."""
    store.close()
    store.write(NAME, metadata={}, body=b"1", expected=None)
    store.close()
    assert store.read(NAME) is not None


def test_the_name_is_for_people(store: CheckpointStore) -> None:
    """It says where, and holds no secret."""
    assert store.name
    assert "AccountKey" not in store.name + repr(store)
