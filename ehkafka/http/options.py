"""What was asked for: where to listen, which token opens it, by which names it is called."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ehkafka.errors import ConfigurationError

TOKEN_CHARACTERS_MIN: Final = 16
TOKEN_VARIABLE: Final = "EHKAFKA_HTTP_TOKEN"  # noqa: S105 - the variable's name
HOSTS_VARIABLE: Final = "EHKAFKA_HTTP_HOSTS"
TOKEN_FILE_VARIABLE: Final = "EHKAFKA_HTTP_TOKEN_FILE"  # noqa: S105 - likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """The HTTP side of an app: `App(http=Http(address="127.0.0.1:8080"))`, or the address alone.

    - `address` (default `"127.0.0.1:8080"`): `HOST:PORT`; port 0 takes a free one.
    - `token_file` (default `None`): a file with the token for actions and, off loopback, for all but probes
      and metrics. `None`: the variable `EHKAFKA_HTTP_TOKEN`, or the file that `EHKAFKA_HTTP_TOKEN_FILE`
      names; without any, actions are refused.
    - `hosts` (default `()`): further names by which browsers reach it, such as an ingress's; those in the
      variable `EHKAFKA_HTTP_HOSTS`, with commas between them, count as well.
    - `shows_values` (default `True`): whether the page shows the begin of the values that hold a commit.

    Raises `ConfigurationError`.
    """

    address: str = "127.0.0.1:8080"
    token_file: str | os.PathLike[str] | None = None
    hosts: tuple[str, ...] = ()
    shows_values: bool = True
    host: str = field(init=False)
    port: int = field(init=False)

    def __post_init__(self) -> None:
        """Read the address."""
        host, port = _split(self.address)
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "port", port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def names(self) -> tuple[str, ...]:
        """The further names by which it is known, of the code and of the environment."""
        given = os.environ.get(HOSTS_VARIABLE, "").split(",")
        return *self.hosts, *(name.strip() for name in given if name.strip())

    def read_token(self) -> str | None:
        """Return the token; None where none is configured. Raises `ConfigurationError`, without the token."""
        file = self.token_file or os.environ.get(TOKEN_FILE_VARIABLE)
        if file is not None:
            try:
                token = Path(file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(
                    f"The token's file {os.fspath(file)!s} cannot be read: {error}"
                ) from None
            source = f"the file {os.fspath(file)!s}"
        else:
            token, source = os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
            if TOKEN_VARIABLE not in os.environ:
                return None
        if len(token) < TOKEN_CHARACTERS_MIN or not token.isascii() or not token.isprintable():
            raise ConfigurationError(
                f"The token of {source} is too short or has unusual characters: it needs "
                f"{TOKEN_CHARACTERS_MIN} or more visible ASCII characters. Make one, for example: python "
                f"-c 'import secrets; "
                "print(secrets.token_urlsafe(24))'."
            )
        return token


def http_of(given: object) -> Http:
    """Return the options of what `App(http=…)` was given. Raises `ConfigurationError`."""
    if isinstance(given, Http):
        return given
    if isinstance(given, str):
        return Http(address=given)
    raise ConfigurationError(
        f"http={given!r:.80}: give an address such as '127.0.0.1:8080', or ehkafka.http.Http(address=…)."
    )


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its name or its number."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigurationError(
            f"{address!r:.80} is not an address to listen on: give HOST:PORT, for example 127.0.0.1:8080, or "
            "0.0.0.0:8080 for all of this machine's addresses."
        )
    return host, int(port)
