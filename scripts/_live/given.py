"""What the run is about: the namespace, how it is entered, and the container, from options and environment.

Secrets come from the environment, a file or a prompt, never from the command line. Opens nothing.
"""

from __future__ import annotations

import getpass
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka import Endpoint
from ehkafka.endpoint.entra.namespace import EntraNamespace
from ehkafka.endpoint.environment import read_variables
from ehkafka.endpoint.keys.connection_string import ConnectionString
from ehkafka.errors import ConfigurationError
from ehkafka.offsets.source import mirror_of_environment, named_mirror
from ehkafka.settings.secret import Secret

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

STRING = "EHKAFKA_CONNECTION_STRING"
SECOND_STRING = "EHKAFKA_LIVE_SECOND_CONNECTION_STRING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """All of it. `string` is the connection string, `second` one of the same policy with its other key."""

    namespace: str
    string: Secret | None = None
    second: Secret | None = None
    credential: str | None = None
    client_id: str | None = None
    # Added to each connection: where it leads to in tests, a CA behind a company's proxy.
    properties: Mapping[str, Any] = field(default_factory=dict)
    mirror: Any = None
    tier: str | None = None
    own_topic: str | None = None
    may_flood: bool = False

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether clients connect to another address than the namespace's own."""
        return "bootstrap.servers" in self.properties

    @property
    def secrets(self) -> list[str]:
        """All secrets in the clear, to be struck out."""
        return [one.reveal() for one in (self.string, self.second) if one is not None]

    def endpoint(self) -> Endpoint:
        """Return the endpoint that all but the probes of other logins use."""
        found = self.key_endpoint() or self.entra_endpoint()
        assert found is not None  # `given` requires one of them
        return found

    def key_endpoint(self, string: Any = None) -> Endpoint | None:
        """Return the endpoint with a key: the given one, or another string or callable."""
        if string is None and self.string is None:
            return None
        value = self.string.reveal() if string is None and self.string else string
        return Endpoint.connection_string(value, properties=self.properties)

    def entra_endpoint(self) -> Endpoint | None:
        """Return the endpoint with an Entra ID identity, None if no credential was chosen."""
        if self.credential is None:
            return None
        return Endpoint.entra(
            self.namespace, self.credential, client_id=self.client_id, properties=self.properties
        )


def given(options: argparse.Namespace, environ: Mapping[str, str]) -> Given:
    """Read options, environment and, on a terminal, the prompt. Raises `ConfigurationError`."""
    namespace = EntraNamespace.parse(options.namespace).host
    string = _string(environ, STRING)
    if string is None and options.credential is None:
        string = _prompted()
    second = _string(environ, SECOND_STRING)
    hubs = [_checked(one, namespace).entity_path for one in (string, second) if one is not None]
    container = options.container
    return Given(
        namespace=namespace,
        string=string,
        second=second,
        credential=options.credential,
        client_id=options.client_id,
        properties=read_variables(environ, "EHKAFKA_").properties,
        mirror=(
            mirror_of_environment(environ)
            if container is None
            else named_mirror(container, credential=options.credential, client_id=options.client_id)
        ),
        tier=options.tier,
        own_topic=options.topic or next(filter(None, hubs), None),
        may_flood=options.throttle,
    )


def _string(environ: Mapping[str, str], variable: str) -> Secret | None:
    if value := environ.get(variable):
        return Secret(value)
    if path := environ.get(f"{variable}_FILE"):
        try:
            return Secret(Path(path).read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{variable}_FILE cannot be read: {type(error).__name__}. Correct the path or its rights."
            ) from None
    return None


def _prompted() -> Secret:
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"How to enter the namespace is missing: set {STRING} or {STRING}_FILE, or give --credential."
        )
    return Secret(getpass.getpass("Connection string of the namespace (it is not shown): "))


def _checked(string: Secret, namespace: str) -> ConnectionString:
    """Return the parsed string; refuse that of another namespace, whose owner was not asked."""
    parsed = ConnectionString.parse(string.reveal())
    if parsed.host.lower() != namespace:
        raise ConfigurationError(
            f"The connection string leads to another namespace than {namespace}: correct one of them."
        )
    return parsed
