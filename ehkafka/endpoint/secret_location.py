"""Where an endpoint's secret can be found by another process, so that the secret itself need not travel.

Called when an endpoint is to be made in another process. Reads the environment that it is given and never
repeats a value of it. Opens nothing; asking an embedded broker for its address may start it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ehkafka.endpoint.keys.connection_string import ConnectionString
from ehkafka.endpoint.keys.source import FileSource
from ehkafka.endpoint.properties.names import is_secret
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint.endpoint import Endpoint

Way = Literal["variable", "file", "namespace", "bootstrap"]

_KEY_SIGN = "sharedaccesskey"


@dataclass(frozen=True, slots=True)
class SecretLocation:
    """How to make an endpoint again: a variable's name, a path, a namespace, or an address. No secret."""

    way: Way
    value: str
    # Of a namespace: the credential's name, and the identity's client id.
    credential: str | None = None
    client_id: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


def secret_location(endpoint: Endpoint, environ: Mapping[str, str]) -> SecretLocation:
    """Return how another process can make this endpoint. Raises `ConfigurationError` where it cannot."""
    properties = plain_properties(endpoint._properties)  # noqa: SLF001 - of this room
    if endpoint.kind == "embedded":
        return SecretLocation("bootstrap", str(endpoint.client_properties()["bootstrap.servers"]))
    if (entra := endpoint._entra) is not None:  # noqa: SLF001 - of this room
        if (chosen := entra.chosen_credential) is None:
            raise ConfigurationError(
                f"{endpoint!r} has a credential object, which cannot be sent to another process: choose a "
                f"credential by name (Endpoint.entra(namespace, 'managed_identity')), or name a function "
                f"that makes the credential in that process."
            )
        return SecretLocation("namespace", entra.namespace.host, *chosen, properties)
    if endpoint.credential is not None:
        source = endpoint.credential.source
        if isinstance(source, FileSource):
            return SecretLocation("file", str(source.path), properties=properties)
        raise ConfigurationError(
            f"{endpoint!r} reads its connection string from a {source.name}, which another process cannot "
            f"call: name a variable or a file, or name a function that makes the endpoint in that process."
        )
    password = endpoint.client_properties().get("sasl.password")
    if password is None:
        address = properties.pop("bootstrap.servers")
        return SecretLocation("bootstrap", address, properties=properties)
    name = next((name for name, value in environ.items() if _is_that_string(value, password)), None)
    if name is None:
        raise ConfigurationError(
            f"{endpoint!r} has its connection string as text, which ehkafka does not send to another "
            f"process: put it into an environment variable of every process, or into a file, and name the "
            f"variable or file."
        )
    return SecretLocation("variable", name, properties=properties)


def _is_that_string(value: str, password: object) -> bool:
    if _KEY_SIGN not in value.lower():
        return False
    try:
        return _without_end(ConnectionString.parse(value).text.reveal()) == _without_end(password)
    except ConfigurationError:  # another kind of secret with such a part
        return False


def _without_end(text: object) -> str:
    return str(text).rstrip("; ")


def plain_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Return properties as text. Raises `ConfigurationError` for a secret, or a function."""
    found = {}
    for name, value in properties.items():
        if is_secret(name, value) or callable(value):
            what = "a secret" if is_secret(name, value) else "a function"
            raise ConfigurationError(
                f"the property {name} is {what}, which cannot be sent to another process: name a function "
                f"that makes the endpoint in that process."
            )
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
