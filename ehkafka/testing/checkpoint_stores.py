"""What every checkpoint store keeps to, as tests: for the stores of the package and for those of its users.

```python
class TestMyStore(CheckpointStoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        return MyStore(tmp_path)
```
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ehkafka.checkpoints.stores.store import StoreConflictError, calls_at_once

if TYPE_CHECKING:
    from ehkafka.checkpoints.stores.store import CheckpointStore, Version

NAME = "ns/hub/$default/checkpoint/0"


class CheckpointStoreSuite:
    """Tests for pytest; a class of yours inherits them and has a fixture `store`: a new store, empty."""

    def test_what_is_not_there_is_none(self, store: CheckpointStore) -> None:
        """A missing blob is an answer, no error."""
        assert store.read(NAME) is None
        assert list(store.list_blobs("ns/")) == []

    def test_what_was_written_is_read(self, store: CheckpointStore) -> None:
        """Body, metadata and version come back; a listing has all but the body."""
        metadata = {"sequencenumber": "41", "offset": "", "clientidentifier": "host:1"}
        body = b'{"next_offset": 42}\n\x00\xff' * 100
        version = store.write(NAME, metadata=metadata, body=body, expected=None)
        found = store.read(NAME)
        assert found is not None
        assert (found.name, found.version, dict(found.metadata), found.body) == (
            NAME,
            version,
            metadata,
            body,
        )
        [listed] = store.list_blobs("ns/hub/")
        assert (listed.name, listed.version, dict(listed.metadata), listed.body) == (
            NAME,
            version,
            metadata,
            b"",
        )

    def test_an_empty_body_and_no_metadata_come_back_too(self, store: CheckpointStore) -> None:
        """The SDKs' own checkpoints have no body."""
        store.write(NAME, metadata={}, body=b"", expected=None)
        found = store.read(NAME)
        assert found is not None
        assert (found.body, dict(found.metadata)) == (b"", {})

    def test_a_listing_has_what_begins_with_the_prefix_in_order(self, store: CheckpointStore) -> None:
        """A prefix need not end at a slash."""
        names = ["a/b/c/check/1", "a/b/c/check/10", "a/b/c/check/2", "a/b/cc/check/0", "z/1"]
        for name in reversed(names):
            store.write(name, metadata={}, body=b"", expected=None)
        assert [blob.name for blob in store.list_blobs("a/b/c")] == names[:4]
        assert [blob.name for blob in store.list_blobs("a/b/c/check/1")] == names[:2]
        assert [blob.name for blob in store.list_blobs("")] == names

    def test_only_the_expected_version_is_overwritten(self, store: CheckpointStore) -> None:
        """A writer with an old version, or one that expects no blob, is refused and changes nothing."""
        old = store.write(NAME, metadata={}, body=b"1", expected=None)
        new = store.write(NAME, metadata={}, body=b"2", expected=old)
        assert new != old
        assert _is_refused(store, NAME, old)
        assert _is_refused(store, NAME, None)
        found = store.read(NAME)
        assert found is not None
        assert (found.body, found.version) == (b"2", new)

    def test_a_blob_that_is_gone_is_not_overwritten(self, store: CheckpointStore) -> None:
        """A version of something that is not there is a conflict."""
        version = store.write(NAME, metadata={}, body=b"1", expected=None)
        assert _is_refused(store, f"{NAME}1", version)
        assert store.read(f"{NAME}1") is None

    def test_the_same_content_twice_has_two_versions(self, store: CheckpointStore) -> None:
        """A version is never used again: a writer that has the first one must notice the second."""
        first = store.write(NAME, metadata={}, body=b"1", expected=None)
        second = store.write(NAME, metadata={}, body=b"2", expected=first)
        third = store.write(NAME, metadata={}, body=b"1", expected=second)
        assert len({first, second, third}) == 3

    def test_one_of_many_writers_wins(self, store: CheckpointStore) -> None:
        """Of writers with the same version exactly one gets through, and its content stays."""
        version = store.write(NAME, metadata={}, body=b"", expected=None)
        won: list[int] = []

        def write(number: int) -> None:
            with contextlib.suppress(StoreConflictError):
                store.write(NAME, metadata={}, body=b"%d" % number, expected=version)
                won.append(number)

        with ThreadPoolExecutor(calls_at_once(store)) as threads:
            list(threads.map(write, range(8)))
        found = store.read(NAME)
        assert found is not None
        assert [b"%d" % number for number in won] == [found.body]

    def test_a_closed_store_may_be_used_again(self, store: CheckpointStore) -> None:
        """A mirror that stops and starts has one store."""
        store.close()
        store.write(NAME, metadata={}, body=b"1", expected=None)
        store.close()
        assert store.read(NAME) is not None

    def test_the_name_is_for_people(self, store: CheckpointStore) -> None:
        """It shows the place and has no secret."""
        assert store.name
        assert "AccountKey" not in store.name + repr(store)


def _is_refused(store: CheckpointStore, name: str, expected: Version | None) -> bool:
    try:
        store.write(name, metadata={}, body=b"3", expected=expected)
    except StoreConflictError:
        return True
    return False
