"""The blob container that the pipeline writes and the page reads: opened by named secrets, never shown.

`HOME_SECURITY_STORAGE` holds the connection string (the demo sets Azurite's), `HOME_SECURITY_CONTAINER` the
container's name. Called by each process on its own threads; the SDK's client may be shared by threads.
"""

from __future__ import annotations

import os

from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import ContainerClient

STORAGE = "HOME_SECURITY_STORAGE"
CONTAINER = "HOME_SECURITY_CONTAINER"
CONNECT_S = 5.0
READ_S = 20.0


def open_container() -> ContainerClient:
    """Return the container that the environment names, without the SDK's long retries. To be closed."""
    missing = [name for name in (STORAGE, CONTAINER) if not os.environ.get(name)]
    if missing:
        raise SystemExit(f"Set {' and '.join(missing)}: where the pipeline's blobs are.")
    return ContainerClient.from_connection_string(
        os.environ[STORAGE],
        os.environ[CONTAINER],
        retry_total=0,
        connection_timeout=CONNECT_S,
        read_timeout=READ_S,
    )


def create_container(container: ContainerClient) -> None:
    """Create it, unless it is there."""
    try:
        container.create_container()
    except ResourceExistsError:
        return
