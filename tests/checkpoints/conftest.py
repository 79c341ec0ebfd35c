"""The three stores, under one name each."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checkpoints.stores.blob import BlobStore
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.checkpoints.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.checkpoints.stores.store import CheckpointStore
    from tests.kit.azurite import Azurite


@pytest.fixture
def container(azurite: Azurite) -> str:
    """Return the name of a new container."""
    name = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(name)
    return name


def open_blob_store(connection_string: str, container: str, **times: float) -> BlobStore:
    """Return a store of blobs."""

    def open_client(options: dict[str, Any]) -> Any:
        from azure.storage.blob import ContainerClient  # noqa: PLC0415

        return ContainerClient.from_connection_string(connection_string, container, **options)

    return BlobStore(open_client, container, **times)


@pytest.fixture(
    params=["memory", "file", pytest.param("blob", marks=pytest.mark.broker)],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CheckpointStore]:
    """Return an empty store of each kind."""
    found: CheckpointStore
    if request.param == "memory":
        found = MemoryStore()
    elif request.param == "file":
        found = FileStore(tmp_path)
    else:
        azurite = request.getfixturevalue("azurite")
        found = open_blob_store(azurite.connection_string(), request.getfixturevalue("container"))
    # Any thread may call each of them.
    found.calls_at_once = 4  # type: ignore[attr-defined]
    yield found
    found.close()


@pytest.fixture
def open_store() -> Callable[..., BlobStore]:
    """Return `open_blob_store`."""
    return open_blob_store
