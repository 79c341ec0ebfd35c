"""Builds azure-identity's credentials by name, and takes the user's own. The only file that imports it.

Nothing is imported or built before the first token is asked for: that takes half a second, and may look
at files and processes. A credential that we built is ours to close; the user's is not. Called by
`TokenSource` on its threads.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import is_async

if TYPE_CHECKING:
    from ehkafka.endpoint.entra.namespace import EntraNamespace

CredentialName = Literal["default", "managed_identity", "workload_identity", "service_principal", "cli"]

_TAKES_CLIENT_ID = ("default", "managed_identity", "workload_identity")
# azure-identity waits 300 s for an answer, and 5 s between tries: a token endpoint that comes back would be
# noticed too late. What these give up is retried by `TokenSource`.
_PATIENCE: dict[str, Any] = {"connection_timeout": 5, "read_timeout": 10, "retry_backoff_factor": 0.2}


class LazyCredential:
    """A credential, made when first asked, and the scope that it is asked for. Any thread may call it."""

    def __init__(self, credential: object, client_id: str | None, namespace: EntraNamespace) -> None:
        """Check what was given. Raises `ConfigurationError`."""
        self._scope = namespace.scope
        self._name, self._given = checked_credential(credential, client_id)
        self._client_id = client_id
        self._authority = namespace.authority
        self._lock = threading.Lock()
        # Under the lock: what we built ourselves.
        self._built: Any = None

    def __repr__(self) -> str:
        return f"<credential {self._name}>"

    @property
    def chosen(self) -> tuple[str, str | None] | None:
        """The credential's name and client id, by which another process can make it; None: it was given."""
        return (self._name, self._client_id) if self._given is None else None

    def fetch(self) -> object:
        """Ask for a token; may take long and raise anything. What it returns is not checked."""
        credential = self._given if self._given is not None else self._own()
        # Newer credentials have both, and then the first is the complete one.
        ask = getattr(credential, "get_token_info", None) or credential.get_token
        return ask(self._scope)

    def close(self) -> None:
        """Close the credential if we built it; the next `fetch` would build another."""
        with self._lock:
            built, self._built = self._built, None
        if built is not None:
            # Closing a pooled connection that is gone already is no news.
            with contextlib.suppress(Exception):
                built.close()

    def _own(self) -> Any:
        with self._lock:
            if self._built is None:
                self._built = build_credential(self._name, self._client_id, self._authority)
            return self._built


def checked_credential(
    credential: object, client_id: str | None, who: str = "Endpoint.entra"
) -> tuple[str, Any]:
    """Return a credential's name, and the object if one was given. Raises `ConfigurationError` by `who`."""
    names = get_args(CredentialName)
    if client_id is not None and not _is_id(client_id):
        raise ConfigurationError(
            f"{who}: client_id must be an ID such as 12345678-1234-1234-1234-123456789abc: give the client "
            f"ID of the identity, or leave client_id out"
        )
    name = "default" if credential is None else credential
    if isinstance(name, str):
        if name not in names:
            # Not repeated: it may be a secret in the wrong place.
            raise ConfigurationError(
                f"{who}: credential is an unknown name: use one of {', '.join(names)}, or give a "
                f"credential object of azure-identity"
            )
        if client_id is not None and name not in _TAKES_CLIENT_ID:
            raise ConfigurationError(
                f"{who}: client_id works only with the credentials {', '.join(_TAKES_CLIENT_ID)}, not with "
                f"credential={name!r}: leave client_id out"
            )
        return name, None
    if client_id is not None:
        raise ConfigurationError(
            f"{who}: client_id has no effect on a credential object: set the ID in that object, and leave "
            f"client_id out here"
        )
    _check_object(credential, who)
    return type(credential).__name__, credential


def _check_object(credential: object, who: str) -> None:
    asks = [getattr(credential, name, None) for name in ("get_token_info", "get_token")]
    if isinstance(credential, type) or not any(map(callable, asks)):
        raise ConfigurationError(
            f"{who}: credential is {getattr(credential, '__name__', type(credential).__name__)},"
            " which has no method get_token(scope): give a credential object of azure-identity, or one of "
            "the names"
            f" {', '.join(get_args(CredentialName))}"
        )
    if any(map(is_async, asks)):
        raise ConfigurationError(
            f"{who}: {type(credential).__name__} is an async credential: give the synchronous class of the "
            f"same name, from azure.identity instead of azure.identity.aio. ehkafka calls it on a separate "
            f"thread, so your event loop is not blocked"
        )


def build_credential(name: str, client_id: str | None, authority: str) -> Any:
    """Build azure-identity's credential of that name; to be closed. `authority` is a host of Entra ID."""
    from azure import identity  # noqa: PLC0415 - half a second, and only for Entra

    kind, id_names, asks_entra = _KINDS[name]
    options = dict(_PATIENCE) if name != "cli" else {}
    # azure-identity's own variable wins: it may name a private cloud.
    if asks_entra and not os.environ.get("AZURE_AUTHORITY_HOST"):
        options["authority"] = authority
    if client_id is not None:
        options |= dict.fromkeys(id_names, client_id)
    return getattr(identity, kind)(**options)


# By name: the class, what it calls a client's id, and whether it asks a host of Entra ID itself.
_KINDS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "default": (
        "DefaultAzureCredential",
        ("managed_identity_client_id", "workload_identity_client_id"),
        True,
    ),
    "managed_identity": ("ManagedIdentityCredential", ("client_id",), False),
    "workload_identity": ("WorkloadIdentityCredential", ("client_id",), True),
    "service_principal": ("EnvironmentCredential", (), True),
    "cli": ("AzureCliCredential", (), False),
}


def _is_id(client_id: object) -> bool:
    return isinstance(client_id, str) and client_id.isprintable() and 0 < len(client_id.strip()) <= 256
