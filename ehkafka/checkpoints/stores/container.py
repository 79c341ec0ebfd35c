"""Which container of Blob Storage is meant, read from a URL, and whether the way to it is safe.

Pure. A URL may hold a SAS, so it is never repeated, only the part before the question mark. Called while a
`BlobMirror` is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from ehkafka.endpoint.bootstrap import is_loopback
from ehkafka.endpoint.entra.namespace import AUTHORITIES, PUBLIC_DOMAIN
from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONTAINER = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}", re.ASCII)
# Domain of a cloud's storage → the domain of its Event Hubs, which the host of Entra ID is known by.
_CLOUDS: Mapping[str, str] = {
    "core.windows.net": PUBLIC_DOMAIN,
    "core.chinacloudapi.cn": "servicebus.chinacloudapi.cn",
    "core.usgovcloudapi.net": "servicebus.usgovcloudapi.net",
}
_EXAMPLE = "https://<account>.blob.core.windows.net/<container>"


@dataclass(frozen=True, slots=True)
class Container:
    """A container by its URL without a query, the name alone, and the host of Entra ID of its cloud."""

    url: str
    name: str
    authority: str
    has_sas: bool

    @classmethod
    def parse(cls, text: object) -> Container:
        """Read a container's URL. Raises `ConfigurationError`, without the URL."""
        if not isinstance(text, str) or not text.strip():
            raise _refusal("it is empty or not text")
        try:
            parts = urlsplit(text.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise _refusal("it is not a URL") from None
        if parts.scheme not in {"https", "http"} or not host or parts.username or parts.password:
            raise _refusal("it does not begin with https:// and a host")
        is_local = is_loopback(host)
        if parts.scheme == "http" and not is_local:
            raise _refusal("http would send checkpoints and keys unencrypted: use https")
        path = [part for part in parts.path.split("/") if part]
        if len(path) != (2 if is_local else 1):
            raise _refusal("its path is not the name of one container")
        check_container_name(path[-1])
        authority = next(
            (AUTHORITIES[hubs] for end, hubs in _CLOUDS.items() if host.endswith(f".{end}")), None
        )
        return cls(
            f"{parts.scheme}://{parts.netloc}/{'/'.join(path)}",
            path[-1],
            authority or AUTHORITIES[PUBLIC_DOMAIN],
            "sig" in parse_qs(parts.query),
        )


def is_container_name(name: object) -> bool:
    """Tell whether Blob Storage takes that for a container's name."""
    return isinstance(name, str) and len(name) <= 63 and _CONTAINER.fullmatch(name) is not None


def check_container_name(name: object) -> None:
    """Refuse what Blob Storage takes for no container. Raises `ConfigurationError`."""
    if not is_container_name(name):
        # Not repeated: it may be a secret in the wrong place.
        raise ConfigurationError(
            "BlobMirror: the name of the container is not valid: use 3 to 63 lower-case letters, digits "
            "and single hyphens."
        )


def _refusal(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"BlobMirror: the container's URL is refused: {ended(reason)} Give a URL such as {_EXAMPLE}"
    )
