"""Reads a list of bootstrap servers. Pure; called while an `Endpoint` is made.

An entry that is not an address is never repeated in the error: people paste connection strings here.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from typing import Any

from ehkafka.errors import ConfigurationError

_ENTRY = re.compile(
    r"(?:(?:plaintext|ssl|sasl_plaintext|sasl_ssl)://)?"
    r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)

_AROUND_COMMAS = re.compile(r"\s*,\s*")

DEFAULT_PORT = 9092
"""What librdkafka takes for an entry without a port."""

_EVENT_HUBS_DOMAINS = (
    ".servicebus.windows.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.usgovcloudapi.net",
)


def listed(servers: object) -> Any:
    """Return a list of servers as one text, without spaces around its commas; anything else as it is."""
    if isinstance(servers, list | tuple) and servers and all(isinstance(one, str) for one in servers):
        servers = ",".join(servers)
    # librdkafka would look up a host with its trailing space.
    return _AROUND_COMMAS.sub(",", servers.strip()) if isinstance(servers, str) else servers


def bootstrap_hosts(bootstrap: str) -> tuple[str, ...]:
    """Return the host of each entry of `host[:port],…`. Raises ConfigurationError naming the entry."""
    if not isinstance(bootstrap, str) or not bootstrap.strip():
        raise ConfigurationError(
            "bootstrap.servers is empty or not text: give the brokers as 'host:port', separated by commas"
        )
    if "sharedaccesskey" in bootstrap.lower():
        raise ConfigurationError(
            "bootstrap.servers contains a connection string: give the string to "
            "Endpoint.connection_string(…) instead"
        )
    entries = enumerate(bootstrap.split(","), start=1)
    return tuple(_host(entry.strip(), number) for number, entry in entries)


def bootstrap_addresses(bootstrap: str) -> tuple[tuple[str, int], ...]:
    """Return host, without the brackets of IPv6, and port of each entry. Raises as `bootstrap_hosts` does."""
    hosts = bootstrap_hosts(bootstrap)
    ports = (_ENTRY.fullmatch(entry.strip()) for entry in bootstrap.split(","))
    return tuple(
        (host.strip("[]"), int(found["port"] or DEFAULT_PORT))
        for host, found in zip(hosts, ports, strict=True)
        if found
    )


def is_embedded(servers: object) -> bool:
    """Tell whether an embedded broker of this process has one of the addresses."""
    # Loaded where there is one; a process without does without.
    embedded = sys.modules.get("ehkafka.embedded.mock_cluster")
    asked = str(servers).replace("localhost", "127.0.0.1").split(",")
    return embedded is not None and not embedded.ADDRESSES.isdisjoint(asked)


def hosts_in(servers: object) -> tuple[str, ...]:
    """Return the hosts that librdkafka would find in a text, which takes more than we do: empty entries, say.

    An entry that cannot be read stands for itself: it is not an address of this machine.
    """
    entries = [entry.strip() for entry in str(servers).split(",")]
    found = ((_ENTRY.fullmatch(entry), entry) for entry in entries if entry)
    return tuple(entry if address is None else address["host"] for address, entry in found)


def is_event_hubs_host(host: str) -> bool:
    """Say whether the host is an Event Hubs namespace, by its domain."""
    return host.lower().rstrip(".").endswith(_EVENT_HUBS_DOMAINS)


def is_loopback(host: str) -> bool:
    """Say whether the host is this machine by name or address, without asking a resolver."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761: always this machine
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _host(entry: str, number: int) -> str:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise ConfigurationError(f"bootstrap.servers: entry {number} is not 'host:port': correct this entry")
    port = found["port"]
    if port is not None and not 1 <= int(port) <= 65_535:
        raise ConfigurationError(f"bootstrap.servers: the port of entry {number} must be from 1 to 65535")
    return found["host"]
