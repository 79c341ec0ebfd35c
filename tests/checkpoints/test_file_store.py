from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

import pytest

from ehkafka.checkpoints.formats.folder import FolderStore
from ehkafka.checkpoints.stores import file as file_store
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.checkpoints.stores.store import (
    StoreConflictError,
    StoreError,
    StoreForbiddenError,
    StoreMissingError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_files_and_folders_are_their_owner_s_alone(tmp_path: Path) -> None:
    """No other user of the machine reads or changes where an app resumes."""
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
    with pytest.raises(StoreError, match="not the name"):
        FileStore(tmp_path / "inner").write(name, metadata={}, body=b"", expected=None)


def test_a_file_of_another_program_is_all_body_and_guarded_too(tmp_path: Path) -> None:
    """What is not ours is shown as it is, and overwritten only by who has seen it."""
    (tmp_path / "0").write_bytes(b"[1, 2]\nrest")
    store = FileStore(tmp_path)
    found = store.read("0")
    assert found is not None
    assert (found.body, dict(found.metadata)) == (b"[1, 2]\nrest", {})
    with pytest.raises(StoreConflictError):
        store.write("0", metadata={}, body=b"", expected=None)
    store.write("0", metadata={}, body=b"", expected=found.version)


def test_a_file_beyond_all_bounds_is_not_read_whole(tmp_path: Path) -> None:
    """A log that was written into the folder must not end up in memory; it is another program's and stays."""
    with (tmp_path / "0").open("wb") as file:
        file.truncate(20 * file_store.FILE_BYTES_MAX)
    found = FileStore(tmp_path).read("0")
    assert found is not None
    assert (found.body, dict(found.metadata)) == (b"", {})
    read = b"\0" * (file_store.FILE_BYTES_MAX + 1)
    assert found.version == file_store._version(read), "so much was read, and no more"
    with pytest.raises(StoreConflictError):
        FileStore(tmp_path).write("0", metadata={}, body=b"", expected=None)


def test_a_pipe_of_a_blob_s_name_holds_up_no_reader(tmp_path: Path) -> None:
    """To open it for reading would wait for a writer."""
    os.mkfifo(tmp_path / "0")
    found = FileStore(tmp_path).read("0")
    assert found is not None
    assert found.body == b""


def test_a_lock_that_is_not_given_back_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 18: a process that was stopped while it wrote must not stop the others' mirrors."""
    monkeypatch.setattr(file_store, "LOCK_S", 0.05)
    store = FileStore(tmp_path)
    with (tmp_path / file_store.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailableError, match="another process has held the file") as found:
            store.write("0", metadata={}, body=b"1", expected=None)
    assert "retried" not in str(found.value)  # that is for the caller to say
    store.write("0", metadata={}, body=b"1", expected=None)


def test_a_folder_that_may_not_be_read_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blobs would be missing from the listing without a word."""
    store = FileStore(tmp_path)
    store.write("a/0", metadata={}, body=b"1", expected=None)
    scan = os.scandir

    def forbidden(path: str) -> object:
        if str(path).endswith("a"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    with pytest.raises(StoreForbiddenError, match="Permission denied"):
        list(store.list_blobs(""))
    with pytest.raises(StoreForbiddenError, match="Permission denied"):
        list(FolderStore(tmp_path).list_blobs(""))
