"""`BlobMirror`: where in Azure Blob Storage an app's commits are mirrored, and with which credential.

Made by the user's code, before anything is opened; holds secrets and shows none. Read by the thread that
starts an app; the client is opened on the mirror's thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ehkafka.checkpoints.store_mirror import INTERVAL_S, check_interval
from ehkafka.checkpoints.stores.blob import BlobStore
from ehkafka.checkpoints.stores.container import Container, check_container_name
from ehkafka.checkpoints.stores.store import StoreForbiddenError
from ehkafka.endpoint.entra.credential import build_credential, checked_credential
from ehkafka.endpoint.keys.source import credential_source
from ehkafka.errors import ConfigurationError
from ehkafka.settings.secret import NeverPickled, Secret
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure.storage.blob import ContainerClient

    from ehkafka.checkpoints.stores.store import CheckpointStore
    from ehkafka.endpoint.keys.source import CredentialSource

    Options = dict[str, Any]
    Opener = Callable[[type[ContainerClient], Options], tuple[Any, Any]]

_PREFIX = "EHKAFKA_MIRROR_"


class BlobMirror(NeverPickled):
    """A copy of the group's commits in a container of Azure Blob Storage.

    A BlobMirror is not pickled. Raises `ConfigurationError` that never holds a secret.

    - `container_url` (required): `https://<account>.blob.core.windows.net/<container>`, with a SAS or
      without. The container must exist.
    - `credential` (default `None`): for a URL without a SAS: an object of azure-identity or azure.core, or
      one of the names that `Endpoint.entra` takes. The identity needs the role Storage Blob Data Contributor
      on the container. `None`: `"default"`.
    - `client_id` (default `None`): the id of a user-assigned identity.
    - `interval_s` (seconds, default `10.0`): the time between two writes of a partition that moves.
    - `namespace` (default `None`): what stands for the broker in the blobs' names. `None`: the endpoint's
      host name.
    """

    _never_pickled = (
        "a BlobMirror is not pickled, because the pickle would carry its key: make it in the process "
        "that uses it, from the environment or a file"
    )

    def __init__(
        self,
        container_url: str,
        credential: object = None,
        *,
        client_id: str | None = None,
        interval_s: float = INTERVAL_S,
        namespace: str | None = None,
    ) -> None:
        container = Container.parse(container_url)
        if container.has_sas and credential is not None:
            raise ConfigurationError(
                "BlobMirror: the URL contains a SAS and a credential is given, too: give only one of the two."
            )
        url = Secret(container_url.strip())
        opener = _by_url(url, container, credential, client_id)
        self._set(opener, container.url, interval_s, namespace)

    def _set(self, opener: Opener, name: str, interval_s: float, namespace: str | None) -> None:
        check_interval(interval_s, "BlobMirror")
        self._opener = opener
        self.name = name
        self.interval_s = float(interval_s)
        self.namespace = namespace

    @classmethod
    def connection_string(
        cls,
        value: str | os.PathLike[str] | Callable[[], str],
        container: str,
        *,
        interval_s: float = INTERVAL_S,
        namespace: str | None = None,
    ) -> Self:
        """Describe a container by its account's connection string, with a key or a SAS.

        `value` is the string, the `Path` of a file that holds it, or a callable that returns it; file and
        callable are read again when the service refuses the key.
        """
        check_container_name(container)
        read = _reader(value)
        account = _account(read())
        mirror = cls.__new__(cls)
        opener = _by_connection_string(read, container)
        mirror._set(opener, f"{account}/{container}", interval_s, namespace)  # noqa: SLF001 - our own class
        return mirror

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, prefix: str = _PREFIX) -> Self:
        """Describe the container that the environment names.

        Either `EHKAFKA_MIRROR_CONTAINER_URL` (with `EHKAFKA_MIRROR_CREDENTIAL` and
        `EHKAFKA_MIRROR_CLIENT_ID` where the URL has no SAS), or `EHKAFKA_MIRROR_CONTAINER` with
        `EHKAFKA_MIRROR_CONNECTION_STRING` or `EHKAFKA_MIRROR_CONNECTION_STRING_FILE`. Besides
        `EHKAFKA_MIRROR_INTERVAL_S` and `EHKAFKA_MIRROR_NAMESPACE`. An empty variable counts as not set.
        """
        environ = os.environ if environ is None else environ
        found = {key: environ[prefix + key.upper()] for key in _KEYS if environ.get(prefix + key.upper())}
        rest: dict[str, Any] = {
            "interval_s": _seconds(found.pop("interval_s", None), f"{prefix}INTERVAL_S"),
            "namespace": found.pop("namespace", None),
        }
        way = frozenset(found)
        if way <= {"container_url", "credential", "client_id"} and "container_url" in way:
            url, credential = found["container_url"], found.get("credential")
            return cls(url, credential, client_id=found.get("client_id"), **rest)
        if way == {"container", "connection_string"}:
            return cls.connection_string(found["connection_string"], found["container"], **rest)
        if way == {"container", "connection_string_file"}:
            return cls.connection_string(Path(found["connection_string_file"]), found["container"], **rest)
        shown = ", ".join(f"{prefix}{key.upper()}" for key in found) or "none"
        raise ConfigurationError(
            f"The variables do not name one mirror: set {prefix}CONTAINER_URL (with {prefix}CREDENTIAL, "
            f"{prefix}CLIENT_ID), or {prefix}CONTAINER with {prefix}CONNECTION_STRING or "
            f"{prefix}CONNECTION_STRING_FILE. Of these, the environment has: {ended(shown)}"
        )

    def open_client(self, options: Options) -> tuple[Any, Any]:
        """Return the SDK's client of the container, and the credential that was built for it, if one was."""
        from azure.storage.blob import ContainerClient  # noqa: PLC0415 - a third of a second

        return self._opener(ContainerClient, options)

    def open_store(self) -> CheckpointStore:
        """Return the store; nothing is asked for before it is used."""
        built: list[Any] = []

        def open_client(options: Options) -> Any:
            client, credential = self.open_client(options)
            if credential is not None:
                built.append(credential)
            return client

        def close_credentials() -> None:
            while built:
                with suppress(Exception):  # a pooled connection that is gone already
                    built.pop().close()

        return BlobStore(open_client, self.name, on_close=close_credentials)

    def __repr__(self) -> str:
        return f"<BlobMirror {self.name}>"


_KEYS = (
    "container_url",
    "credential",
    "client_id",
    "container",
    "connection_string",
    "connection_string_file",
    "interval_s",
    "namespace",
)


def _by_url(url: Secret, container: Container, credential: Any, client_id: str | None) -> Opener:
    """Return what opens a client, with the credential that was built for it, if one was."""
    key = credential if _is_key(credential) else None
    name, given = "", None
    if not container.has_sas and key is None:
        name, given = checked_credential(credential, client_id, "BlobMirror")
    if name and container.url.startswith("http://"):
        raise ConfigurationError(
            "BlobMirror: a token may be sent only over https: use an https URL, a SAS or a connection string."
        )

    def open_client(kind: type[ContainerClient], options: Options) -> tuple[Any, Any]:
        built = None
        if name and given is None:
            built = build_credential(name, client_id, container.authority)
        chosen = key if key is not None else given if given is not None else built
        return kind.from_container_url(url.reveal(), chosen, **options), built

    return open_client


def _by_connection_string(read: Callable[[], Secret], container: str) -> Opener:
    return lambda kind, options: (
        kind.from_connection_string(read().reveal(), container, **options),
        None,
    )


def _is_key(credential: object) -> bool:
    """Tell whether it is one of azure.core's holders of a key or SAS, which need no Entra ID."""
    return type(credential).__name__ in {"AzureSasCredential", "AzureNamedKeyCredential"}


def _reader(value: object) -> Callable[[], Secret]:
    if isinstance(value, str):
        secret = Secret(value)
        return lambda: secret
    source = credential_source(value)
    if source is not None:
        return partial(_read, source)
    raise ConfigurationError(
        f"BlobMirror.connection_string: give the string, the Path of a file with the string, or a callable "
        f"that returns it, not a value of type {type(value).__name__}."
    )


def _read(source: CredentialSource) -> Secret:
    try:
        return Secret(source.read().strip())
    except ConfigurationError as error:
        # While an app runs, this is an outage of the store.
        raise StoreForbiddenError(f"BlobMirror: {ended(str(error))}") from None


def _account(text: Secret) -> str:
    """Return the account's URL of a connection string, for people. Raises `ConfigurationError`."""
    parts = dict(part.split("=", 1) for part in text.reveal().strip(";").split(";") if "=" in part)
    known = {name.strip().lower(): value.strip() for name, value in parts.items()}
    if not known.keys() & {"accountkey", "sharedaccesssignature"}:
        raise ConfigurationError(
            "BlobMirror.connection_string: the text is not the connection string of a storage account: it "
            "has neither AccountKey nor SharedAccessSignature. Copy the string from Access keys in the "
            "portal."
        )
    if not known.get("blobendpoint") and not known.get("accountname"):
        raise ConfigurationError(
            "BlobMirror.connection_string: the text has neither AccountName nor BlobEndpoint. Copy the "
            "whole string from Access keys in the portal."
        )
    end = known.get("endpointsuffix", "core.windows.net")
    url = known.get("blobendpoint") or f"https://{known.get('accountname', '')}.blob.{end}"
    url = url.partition("?")[0].rstrip("/")
    if known.get("defaultendpointsprotocol", "https") == "http" and "blobendpoint" not in known:
        url = url.replace("https://", "http://", 1)
    # The same rules as for a URL: https, but on this machine.
    Container.parse(f"{url}/container")
    return url


def _seconds(text: str | None, name: str) -> float:
    if text is None:
        return INTERVAL_S
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{name} is not a number of seconds.") from None
