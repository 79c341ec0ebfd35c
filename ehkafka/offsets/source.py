"""Where checkpoints lie: a container, a folder with files of the same names, or a list of blobs.

A key or a SAS is never part of what a person types: the command line shows in process lists and histories.
Called once by a command, on the main thread.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ehkafka.checkpoints.blob_mirror import BlobMirror
from ehkafka.checkpoints.file_store import FileStore
from ehkafka.checkpoints.formats import Format
from ehkafka.checkpoints.formats_choose import Wanted, choose, read_store
from ehkafka.checkpoints.formats_folder import BlobList, CheckpointFolder
from ehkafka.checkpoints.formats_write import WRITTEN
from ehkafka.checkpoints.layout import Layout, namespace_of
from ehkafka.checkpoints.store import CheckpointStore
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.compare import mirror_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.checks.target import Target

__all__ = [
    "WRITTEN",
    "CheckpointStore",
    "Format",
    "Wanted",
    "choose",
    "mirror_of_environment",
    "mirror_of_target",
    "mirrored_positions",
    "named_mirror",
    "open_source",
    "read_store",
]

CONNECTION_STRING: Final = "EHKAFKA_MIRROR_CONNECTION_STRING"
CONNECTION_STRING_FILE: Final = f"{CONNECTION_STRING}_FILE"
_CONTAINERS: Final = (
    "the URL of a container (entered with an Entra ID identity), the"
    f" name of a container (with {CONNECTION_STRING} in the environment),"
)
FORMS: Final = f"{_CONTAINERS} a folder, or a list that `az storage blob list --include m -o json` printed"
MIRROR_FORMS: Final = f"{_CONTAINERS} or a folder"


def open_source(
    where: str,
    *,
    credential: str | None = None,
    client_id: str | None = None,
    new_folder: bool = False,
    environ: Mapping[str, str] | None = None,
) -> CheckpointStore:
    """Return the store that a person named. Raises `ConfigurationError`.

    With `new_folder` a path that is not there yet is a folder to make.
    """
    environ = os.environ if environ is None else environ
    if _is_url(where):
        return _by_url(where, credential, client_id).open_store()
    path = Path(where)
    if path.is_dir():
        return CheckpointFolder(path)
    if path.is_file():
        return BlobList(path)
    container = _by_name(where, environ)
    if container is not None:
        return container.open_store()
    if new_folder:
        return CheckpointFolder(path)
    raise _nothing(where, FORMS)


def named_mirror(
    where: str,
    *,
    credential: str | None = None,
    client_id: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> MirrorChoice:
    """Return the mirror that a person named, as an app would have it. Raises `ConfigurationError`."""
    environ = os.environ if environ is None else environ
    if _is_url(where):
        return _by_url(where, credential, client_id)
    if Path(where).is_dir():
        return StoreMirror(store=FileStore(where))
    container = _by_name(where, environ)
    if container is None:
        raise _nothing(where, MIRROR_FORMS)
    return container


def mirror_of_environment(environ: Mapping[str, str] | None = None) -> MirrorChoice | None:
    """Return the mirror that variables name; None when they name none. Raises `ConfigurationError`."""
    environ = os.environ if environ is None else environ
    variables = ("EHKAFKA_MIRROR_CONTAINER_URL", "EHKAFKA_MIRROR_CONTAINER")
    return BlobMirror.from_env(environ) if any(map(environ.get, variables)) else None


def mirror_of_target(
    target: Target, environ: Mapping[str, str] | None = None
) -> tuple[CheckpointStore | None, str]:
    """Return the app's mirror, else the environment's, and the namespace in its names.

    The store is None where there is neither. Raises `ConfigurationError`.
    """
    choice = target.mirror or mirror_of_environment(environ)
    name = namespace_of(target.endpoint.name)
    if choice is None:
        return None, name
    return choice.open_store(), choice.namespace or name


def mirrored_positions(target: Target, topic: str, group: str) -> dict[int, int]:
    """Return what the app's own mirror says, by partition; nothing without one. Raises `StoreError`."""
    store, namespace = mirror_of_target(target)
    if store is None:
        return {}
    return mirror_of(read_store(store, Layout(namespace, group).prefix(topic, "checkpoint")), topic, group)


def _is_url(where: str) -> bool:
    return where.startswith(("https://", "http://"))


def _by_url(where: str, credential: str | None, client_id: str | None) -> BlobMirror:
    return BlobMirror(_without_secret(where), credential, client_id=client_id)


def _by_name(where: str, environ: Mapping[str, str]) -> BlobMirror | None:
    string, file = environ.get(CONNECTION_STRING), environ.get(CONNECTION_STRING_FILE)
    if "/" in where or not (string or file):
        return None
    return BlobMirror.connection_string(string or Path(file or ""), where)


def _nothing(where: str, forms: str) -> ConfigurationError:
    hint = "" if "/" in where else f" If it is a container, set {CONNECTION_STRING}."
    return ConfigurationError(f"There is nothing at {where!r}.{hint} Give {forms}.")


def _without_secret(url: str) -> str:
    if "?" in url or "@" in url:
        # Not repeated: it may be a SAS or a key.
        raise ConfigurationError(
            "The container's URL has a '?' or an '@' in it. A SAS is a secret, and the command line is no"
            " place for it: put SharedAccessSignature=… and BlobEndpoint=… into"
            f" {CONNECTION_STRING}, and give the container's name."
        )
    return url
