"""Reads a connection string of Event Hubs or of its emulator into a value that hides its key.

Pure: no I/O, no clock. No error of this module repeats any part of the text, however broken the text
is, because a typo may turn the key into a name, a host or a port. Called while an `Endpoint` is made.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from ehkafka.endpoint.bootstrap import is_event_hubs_host
from ehkafka.errors import ConfigurationError
from ehkafka.settings.secret import Secret

# The literal user name that Event Hubs wants with the whole string as password.
USERNAME = "$ConnectionString"
KAFKA_PORT = 9093
EMULATOR_KAFKA_PORT = 9092

_REQUIRED = ("Endpoint", "SharedAccessKeyName", "SharedAccessKey")
_KNOWN = (*_REQUIRED, "EntityPath", "UseDevelopmentEmulator", "SharedAccessSignature")
_CANONICAL = {name.lower(): name for name in _KNOWN}
_SCHEMES = frozenset({"sb", "amqp", "amqps", "https"})
# AMQP, AMQP over TLS, HTTPS and the emulator's health page: right in a string made for another client,
# but Kafka is not spoken there.
_PORTS_OF_OTHER_PROTOCOLS = frozenset({443, 5300, 5671, 5672})
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+")
# Names of event hubs and of topics alike; a key that got there by mistake ends with an '='.
_EVENT_HUB = re.compile(r"[A-Za-z0-9._-]{1,256}")
_EXPECTED = (
    "Endpoint=sb://<namespace>.servicebus.windows.net/;SharedAccessKeyName=<name>;SharedAccessKey=<key>"
)
# Parts that only other services' strings have → what to say. Each is pasted here now and then.
_STORAGE = "a storage account, not of an Event Hubs namespace"
_OF_OTHER_SERVICES = {
    "defaultendpointsprotocol": _STORAGE,
    "accountname": _STORAGE,
    "accountkey": _STORAGE,
    "blobendpoint": _STORAGE,
    "hostname": "an IoT hub; take its Event Hub-compatible one, from the page Built-in endpoints",
}
_QUOTES = ("'", '"')


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """A parsed connection string. Only `text`, the whole of it, holds the key, and shows as `***`."""

    host: str
    port: int
    # Not shown: where name and key were exchanged by mistake, it is the key.
    key_name: str = field(repr=False)
    entity_path: str | None
    is_emulator: bool
    text: Secret

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read the string; names in any case and order, spaces and one pair of quotes around tolerated.

        Raises `ConfigurationError` that names what is missing or wrong and never repeats the text.
        """
        parts, text = _split(_unquoted(value))
        _require(parts)
        is_emulator = _flag(parts.get("UseDevelopmentEmulator"))
        host, port = _address(parts["Endpoint"])
        if is_emulator and is_event_hubs_host(host):
            # It would send the key of a real namespace unencrypted.
            raise _wrong(
                "it has UseDevelopmentEmulator=true and the host of a namespace: remove one of the two"
            )
        if port is None or port in _PORTS_OF_OTHER_PROTOCOLS:
            port = EMULATOR_KAFKA_PORT if is_emulator else KAFKA_PORT
        return cls(
            host=host,
            port=port,
            key_name=parts["SharedAccessKeyName"],
            entity_path=_event_hub(parts.get("EntityPath")),
            is_emulator=is_emulator,
            text=Secret(text),
        )

    @property
    def username(self) -> str:
        """The SASL user name."""
        return USERNAME

    @property
    def bootstrap(self) -> str:
        """The Kafka address, `host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def client_properties(self) -> dict[str, Any]:
        """Return address and authentication as librdkafka properties. The password is in the clear."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT" if self.is_emulator else "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": self.username,
            "sasl.password": self.text.reveal(),
        }


class _Address(NamedTuple):
    host: str
    port: int | None


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError(f"connection string: {what} (expected {_EXPECTED})")


def _unquoted(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(f"it is {type(value).__name__}, not text")
    text = value.strip()
    if text[:1] in _QUOTES and text:
        if len(text) < 2 or text[-1] != text[0]:
            raise _wrong("it begins with a quotation mark that is never closed")
        text = text[1:-1].strip()
    if not text:
        raise _wrong("it is empty: check the environment variable or file that should contain it")
    if "=" not in text:
        raise _wrong("it has no '='; if it is the path of a file, give it as pathlib.Path(…)")
    return text


def _split(text: str) -> tuple[dict[str, str], str]:
    """Return the known parts by canonical name, and the text without the spaces around its parts."""
    parts: dict[str, str] = {}
    cleaned: list[str] = []
    for number, part in enumerate(text.split(";"), start=1):
        if not part.strip():
            cleaned.append("")
            continue
        # Only the first '=' separates: keys end with one.
        given, equals, value = (piece.strip() for piece in part.partition("="))
        name = _name(given, number, has_value=bool(equals))
        if name in parts:
            raise _wrong(f"{name} is given twice: remove one of the two")
        if name is not None:
            parts[name] = _value(name, value)
        cleaned.append(f"{name or given}={value}")
    return parts, ";".join(cleaned)


def _name(given: str, number: int, *, has_value: bool) -> str | None:
    """Return the canonical name, or `None` for a part of another client's that we do not need."""
    if not has_value:
        raise _wrong(f"part {number} (between ';') has no '=' between name and value")
    if (service := _OF_OTHER_SERVICES.get(given.lower())) is not None:
        raise _wrong(f"it is the connection string of another service: {service}")
    known = _CANONICAL.get(given.lower())
    if known is None and (close := difflib.get_close_matches(given.lower(), _CANONICAL, n=1, cutoff=0.8)):
        raise _wrong(f"the name of part {number} is unknown; did you mean {_CANONICAL[close[0]]}?")
    return known


def _value(name: str, value: str) -> str:
    if not value:
        raise _wrong(f"{name} has no value")
    # A line break inside would be sent as it is and refused by the service without a reason.
    if not value.isprintable() or any(character.isspace() for character in value):
        raise _wrong(f"the value of {name} contains a space, a line break or a control character")
    # Base64 ends with its padding, and no name holds an '=': here the separator got lost.
    if name in {"SharedAccessKeyName", "SharedAccessKey"} and "=" in _without_padding(name, value):
        raise _wrong(f"the value of {name} continues after an '='; is a ';' missing there?")
    return value


def _without_padding(name: str, value: str) -> str:
    return value.rstrip("=") if name == "SharedAccessKey" else value


def _event_hub(value: str | None) -> str | None:
    if value is not None and _EVENT_HUB.fullmatch(value) is None:
        raise _wrong(
            "EntityPath is not the name of an event hub: use up to 256 letters, digits, '.', '-' and '_'"
        )
    return value


def _require(parts: dict[str, str]) -> None:
    if "SharedAccessSignature" in parts:
        raise _wrong(
            "it contains a SharedAccessSignature, which the Kafka endpoint does not accept: use the "
            "SharedAccessKey of a policy, or Entra ID"
        )
    if missing := [name for name in _REQUIRED if name not in parts]:
        raise _wrong(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")


def _flag(value: str | None) -> bool:
    text = (value or "false").lower()
    if text not in {"true", "false"}:
        raise _wrong("UseDevelopmentEmulator is neither true nor false")
    return text == "true"


def _address(endpoint: str) -> _Address:
    url = _url(endpoint)
    if url is None:
        raise _wrong("Endpoint is not an address: check that its port is a number")
    host, port = url.hostname, url.port
    if url.scheme.lower() not in _SCHEMES or not host:
        raise _wrong("Endpoint does not begin with sb:// and a host")
    if url.username is not None or url.query or url.fragment or _HOST.fullmatch(host) is None:
        raise _wrong("Endpoint must be sb://, a host and a port only, without other characters")
    if url.path not in {"", "/"}:
        raise _wrong("Endpoint has a path: remove it, and name the event hub in EntityPath=<event hub>")
    if port == 0:
        raise _wrong("the port of Endpoint is 0")
    return _Address(host, port)


def _url(endpoint: str) -> SplitResult | None:
    # The parser's own message repeats its input, so it must not even be our error's context.
    with contextlib.suppress(ValueError):
        url = urlsplit(endpoint)
        _ = url.port  # parsed, and refused, only when read
        return url
    return None
