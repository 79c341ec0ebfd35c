"""Reads the namespace that an Entra ID token is for, and knows what differs between Azure's clouds.

Pure. What is no namespace is never repeated in the error: people paste connection strings here. Called
while an `Endpoint` is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC_DOMAIN = "servicebus.windows.net"
KAFKA_PORT = 9093
# Where the same namespace speaks HTTPS and AMQP: in the addresses that the portal shows.
_PORTS = {"9093", "443", "5671", "5672"}

AUTHORITIES: Mapping[str, str] = {
    PUBLIC_DOMAIN: "login.microsoftonline.com",
    "servicebus.chinacloudapi.cn": "login.chinacloudapi.cn",
    "servicebus.usgovcloudapi.net": "login.microsoftonline.us",
}
"""Domain of a cloud's namespaces → the host of its Entra ID."""

_TEXT = re.compile(
    r"(?:(?:sb|https|amqps)://)?"
    r"(?P<label>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.(?P<domain>[a-z0-9.-]{1,190}?)\.?)?"
    r"(?::(?P<port>[0-9]{1,5}))?/?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class EntraNamespace:
    """One namespace: its full host name, and the host of Entra ID in its cloud."""

    host: str
    authority: str

    @classmethod
    def parse(cls, text: object) -> EntraNamespace:
        """Read a bare name, a host name, or `sb://host:port/`. Raises `ConfigurationError`."""
        if not isinstance(text, str) or not text.strip():
            raise _refusal("it is empty or not text")
        if "sharedaccess" in text.lower():
            raise _refusal(
                "it is a connection string, which contains an access key: give it to "
                "Endpoint.connection_string(…) instead"
            )
        found = _TEXT.fullmatch(text.strip().lower())
        if found is None:
            raise _refusal("it is not a host name")
        domain = found["domain"] or PUBLIC_DOMAIN
        if domain not in AUTHORITIES:
            raise _refusal(
                f"its domain is not one of Event Hubs ({', '.join(AUTHORITIES)}). For a private endpoint, "
                f"too, give the namespace: private DNS resolves the namespace to the endpoint"
            )
        if found["port"] is not None and found["port"] not in _PORTS:
            raise _refusal(
                f"clients always connect to port {KAFKA_PORT} of Event Hubs: leave the port out, or set "
                "another address as properties={'bootstrap.servers': …}"
            )
        return cls(f"{found['label']}.{domain}", AUTHORITIES[domain])

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"{self.host}:{KAFKA_PORT}"

    @property
    def scope(self) -> str:
        """What a token for this namespace is asked for."""
        return f"https://{self.host}/.default"


def _refusal(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"Endpoint.entra: the namespace is refused: {ended(reason)}"
        f" Give the namespace's name ('home') or host name ('home.{PUBLIC_DOMAIN}')."
    )
