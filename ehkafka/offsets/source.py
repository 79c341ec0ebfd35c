"""Where checkpoints lie: a container, a folder with files of the same names, or a list of blobs.

A key or a SAS is never part of what a person types: the command line shows in process lists and histories.
Called once by a command, on the main thread.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ehkafka.checkpoints.blob_mirror import BlobMirror
from ehkafka.checkpoints.formats.choose import CheckpointFilter, choose, read_store
from ehkafka.checkpoints.formats.folder import BlobList, FolderStore
from ehkafka.checkpoints.formats.formats import Format
from ehkafka.checkpoints.formats.write import WRITTEN
from ehkafka.checkpoints.layout import Layout, namespace_of
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.container import is_container_name
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.checkpoints.stores.store import CheckpointStore
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.compare import mirror_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ehkafka.checkpoints.formats.formats import BadBlob, FoundBlob
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.checks.target import Target

__all__ = [
    "WRITTEN",
    "CheckpointFilter",
    "CheckpointStore",
    "Format",
    "choose",
    "mirror_of_environment",
    "mirror_of_target",
    "mirrored_positions",
    "named_mirror",
    "namespace_of_target",
    "open_source",
    "read_store",
]

CONNECTION_STRING: Final = "EHKAFKA_MIRROR_CONNECTION_STRING"
CONNECTION_STRING_FILE: Final = f"{CONNECTION_STRING}_FILE"
_SECRET = re.compile(r"(accountkey|sharedaccess\w*|(^|[?&;])sig)\s*=", re.IGNORECASE)
_CONTAINERS: Final = (
    "the URL of a container (entered with an Entra ID identity), the"
    f" name of a container (with {CONNECTION_STRING} in the environment),"
)
FORMS: Final = f"{_CONTAINERS} a folder, or a list that `az storage blob list --include m -o json` printed"
MIRROR_FORMS: Final = f"{_CONTAINERS} or a folder"


def open_source(
    where: str, credential: str | None = None, client_id: str | None = None, *, new_folder: bool = False
) -> CheckpointStore:
    """Return the store that a person named. Raises `ConfigurationError`.

    With `new_folder` a path with a slash that is not there yet is a folder to make.
    """
    container = _container(where, FORMS, credential, client_id)
    if container is not None:
        return container.open_store()
    path = Path(where)
    if _is_there(path, Path.is_dir) or (new_folder and "/" in where):
        return FolderStore(path)
    if _is_there(path, Path.is_file):
        return BlobList(path)
    raise _nothing(where, FORMS, new_folder=new_folder)


def named_mirror(where: str, *, credential: str | None = None, client_id: str | None = None) -> MirrorChoice:
    """Return the mirror that a person named, as an app would have it. Raises `ConfigurationError`."""
    container = _container(where, MIRROR_FORMS, credential, client_id)
    if container is not None:
        return container
    if _is_there(Path(where), Path.is_dir):
        return StoreMirror(store=FileStore(where))
    raise _nothing(where, MIRROR_FORMS)


def mirror_of_environment(environ: Mapping[str, str] = os.environ) -> MirrorChoice | None:
    """Return the mirror that variables name; None when they name none. Raises `ConfigurationError`."""
    variables = ("EHKAFKA_MIRROR_CONTAINER_URL", "EHKAFKA_MIRROR_CONTAINER")
    return BlobMirror.from_env(environ) if any(map(environ.get, variables)) else None


def mirror_of_target(target: Target) -> tuple[CheckpointStore | None, str]:
    """Return the app's mirror, else the environment's, and the namespace in its names.

    The store is None where there is neither. Raises `ConfigurationError`.
    """
    choice = target.mirror or mirror_of_environment()
    return None if choice is None else choice.open_store(), namespace_of_target(target)


def namespace_of_target(target: Target) -> str:
    """Return the namespace in blobs' names: the app's mirror's, else the environment's, else the broker's."""
    chosen = target.mirror.namespace if target.mirror else os.environ.get("EHKAFKA_MIRROR_NAMESPACE")
    return chosen or namespace_of(target.endpoint.name)


def mirrored_positions(
    target: Target, topic: str, group: str, blobs: Iterable[FoundBlob | BadBlob] = ()
) -> dict[int, int]:
    """Return what the group's mirror says, by partition: the app's own, else one among `blobs`.

    Raises `StoreError`.
    """
    store, namespace = mirror_of_target(target)
    found = mirror_of(blobs, namespace, topic, group)
    if store is not None:
        own = read_store(store, Layout(namespace, group).prefix(topic, "checkpoint"))
        found |= mirror_of(own, namespace, topic, group)
    return found


def _container(where: str, forms: str, credential: str | None, client_id: str | None) -> BlobMirror | None:
    """Return the container of that URL or name, None if it is neither. Refuses an empty text."""
    # To the system an empty path is the current folder: a variable that is not set would be written there.
    if not where.strip():
        raise ConfigurationError(f"The place of the checkpoints is empty. Give {forms}.")
    return BlobMirror(where, credential, client_id=client_id) if _is_url(where) else _by_name(where)


def _is_url(where: str) -> bool:
    """Tell whether it is a URL. Raises `ConfigurationError` for what has a secret in it, URL or not."""
    is_url = where.casefold().startswith(("https://", "http://"))
    if (is_url and ("?" in where or "@" in where)) or _SECRET.search(where):
        # Not repeated: it may be a SAS or a key.
        raise ConfigurationError(
            f"The place of the checkpoints has a '?' or an '@' in its URL, or a key. A SAS is a secret, "
            f"and the command line is not safe for secrets. Put the connection string (for a SAS: "
            f"SharedAccessSignature=… and BlobEndpoint=…) into {CONNECTION_STRING}, and give the name of "
            f"the container."
        )
    return is_url


def _by_name(where: str) -> BlobMirror | None:
    """Return the container of that name, None if the environment has no key or it is no such name."""
    string, file = os.environ.get(CONNECTION_STRING), os.environ.get(CONNECTION_STRING_FILE)
    if not (string or file) or not is_container_name(where):
        return None
    if _is_there(Path(where), Path.exists):
        raise ConfigurationError(
            f"{where!r} may be a folder on this disk, or a container, because {CONNECTION_STRING} is set. "
            f"For the folder, give ./{where}; for the container, run the command in another folder."
        )
    return BlobMirror.connection_string(string or Path(file or ""), where)


def _is_there(path: Path, check: Callable[[Path], bool]) -> bool:
    try:
        return check(path)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror}.") from None


def _nothing(where: str, forms: str, *, new_folder: bool = False) -> ConfigurationError:
    hint = "" if "/" in where else f" If you mean a container, set {CONNECTION_STRING}."
    hint += f" To create a folder, give ./{where}." if new_folder else ""
    return ConfigurationError(f"There is nothing at {where!r}.{hint} Give {forms}.")
