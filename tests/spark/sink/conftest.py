"""A container of one's own, and a look at what is in it."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.azurite import Azurite


class Written:
    """What a container holds. `options` are what the sink needs to write there, without `path`."""

    def __init__(self, client: Any, options: dict[str, str]) -> None:
        self._client = client
        self.options = options

    def names(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        return sorted(self._client.list_blob_names())

    def content(self, name: str) -> bytes:
        """Return a blob's bytes."""
        found: bytes = self._client.download_blob(name).readall()
        return found

    def delete(self, name: str) -> None:
        """Remove a blob."""
        self._client.delete_blob(name)

    def manifests(self) -> dict[int, dict[str, Any]]:
        """Return the manifest of each complete batch."""
        found = [json.loads(self.content(name)) for name in self.names() if name.endswith("/_manifest.json")]
        return {each["batch"]: each for each in found}

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all blobs of JSON lines, complete batch or not."""
        lines = [
            line
            for name in self.names()
            if name.endswith(".jsonl")
            for line in self.content(name).splitlines()
        ]
        return [json.loads(line) for line in lines]


@pytest.fixture
def written(azurite: Azurite, tmp_path: Path) -> Iterator[Written]:
    """Return a new container; its key is in a file."""
    name = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(name)
    secret = tmp_path / "storage-connection"
    secret.write_text(azurite.connection_string())
    with azurite.service_client() as service:
        options = {"container": name, "connectionStringFile": str(secret)}
        yield Written(service.get_container_client(name), options)
