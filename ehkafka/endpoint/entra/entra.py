"""What `Endpoint.entra` is made of: a namespace, a credential, and further properties.

Refuses what would send the token to others, or bend who we say we are. Opens nothing and asks for
nothing: the first token is fetched by `sign_in`, before the first client is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.bootstrap import bootstrap_hosts, is_loopback
from ehkafka.endpoint.entra.credential import LazyCredential
from ehkafka.endpoint.entra.namespace import EntraNamespace
from ehkafka.endpoint.entra.token_source import TokenSource
from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint.properties.names import Value


class EntraConnection:
    """The connection of one endpoint; shared by all clients of it."""

    def __init__(
        self,
        namespace: str,
        credential: object,
        client_id: str | None,
        properties: Mapping[str, Value] | None,
    ) -> None:
        """Check everything that can be checked here. Raises `ConfigurationError`."""
        self.namespace = EntraNamespace.parse(namespace)
        self.properties = in_one_spelling(properties, "Endpoint.entra")
        _check_properties(self.properties, self.namespace)
        self._credential = LazyCredential(credential, client_id, self.namespace)
        self.tokens = TokenSource(self._credential.fetch, self.namespace.host)

    @property
    def chosen_credential(self) -> tuple[str, str | None] | None:
        """The credential's name and client id; None where the caller gave an object."""
        return self._credential.chosen

    def client_properties(self) -> dict[str, Any]:
        """Return what each client needs; asks for no token."""
        return {
            "bootstrap.servers": self.namespace.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": self.tokens.oauth_cb,
            # At its default of 10 s a client would come back too late from an expired token.
            "reconnect.backoff.max.ms": 2_000,
        }

    def close(self) -> None:
        """Close the credential, if we built it."""
        self._credential.close()


def _check_properties(chosen: Mapping[str, Any], namespace: EntraNamespace) -> None:
    for name in chosen:
        if name.startswith("sasl.") or name == "oauth_cb":
            raise ConfigurationError(
                f"Endpoint.entra: the credential already sets {name}: leave it out of properties=, or "
                f"describe the broker with Endpoint.kafka(…)"
            )
    hosts = bootstrap_hosts(chosen.get("bootstrap.servers", namespace.bootstrap))
    protocol = str(chosen.get("security.protocol", "SASL_SSL")).upper()
    if protocol != "SASL_SSL" and not (protocol == "SASL_PLAINTEXT" and all(map(is_loopback, hosts))):
        raise ConfigurationError(
            "Endpoint.entra: security.protocol other than SASL_SSL would send the token unencrypted. Leave"
            " security.protocol out. SASL_PLAINTEXT is allowed only if every bootstrap server is this machine"
        )
