from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from ehkafka.checkpoints import file_store
from ehkafka.checkpoints.file_store import FileStore
from ehkafka.checkpoints.store import StoreConflictError, StoreError, StoreMissingError, StoreUnavailableError

if TYPE_CHECKING:
    from pathlib import Path


def test_files_and_folders_are_their_owner_s_alone(tmp_path: Path) -> None:
    """Nobody else on the machine reads or changes where an app resumes."""
    FileStore(tmp_path).write("a/b/0", metadata={}, body=b"1", expected=None)
    assert stat.S_IMODE((tmp_path / "a/b/0").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o700


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or a crash before the rename changes nothing, and leaves nothing in the listing."""
    store = FileStore(tmp_path)
    version = store.write("a/0", metadata={}, body=b"old", expected=None)

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(file_store.os, "fsync", full)
        with pytest.raises(StoreUnavailableError, match="No space left"):
            store.write("a/0", metadata={}, body=b"new", expected=version)
    found = store.read("a/0")
    assert found is not None
    assert (found.body, found.version) == (b"old", version)
    assert [blob.name for blob in store.list_blobs("")] == ["a/0"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["0"]


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A disk that is not mounted must not be replaced by an empty folder."""
    store = FileStore(tmp_path / "missing")
    for call in (
        lambda: store.read("a"),
        lambda: list(store.list_blobs("")),
        lambda: store.write("a", metadata={}, body=b"", expected=None),
    ):
        with pytest.raises(StoreMissingError, match="create it"):
            call()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a//b", "", "a/..", "a/.new-x", "a\0"])
def test_names_outside_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    """A name can never leave the folder or hide among unfinished files."""
    with pytest.raises(StoreError, match="no name"):
        FileStore(tmp_path / "inner").write(name, metadata={}, body=b"", expected=None)


def test_a_file_of_somebody_else_is_all_body_and_guarded_too(tmp_path: Path) -> None:
    """What is not ours is shown as it is, and overwritten only by who has seen it."""
    (tmp_path / "0").write_bytes(b"[1, 2]\nrest")
    store = FileStore(tmp_path)
    found = store.read("0")
    assert found is not None
    assert (found.body, dict(found.metadata)) == (b"[1, 2]\nrest", {})
    with pytest.raises(StoreConflictError):
        store.write("0", metadata={}, body=b"", expected=None)
    store.write("0", metadata={}, body=b"", expected=found.version)
