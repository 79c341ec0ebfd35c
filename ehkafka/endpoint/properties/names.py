"""What we know of librdkafka's property names: aliases, and which hold secrets.

Pure. Brings a mapping given by a user into one spelling, so that two layers laid over one another
cannot hold the same property twice. Called by `Endpoint` and by `properties`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ehkafka.endpoint.bootstrap import listed
from ehkafka.endpoint.properties.known_names import may_be_secret, meant_by
from ehkafka.endpoint.text import check_text
from ehkafka.errors import ConfigurationError

Value: TypeAlias = "str | int | float | bool | Callable[..., Any]"

ALIASES: Mapping[str, str] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanisms",
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "delivery.timeout.ms": "message.timeout.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
"""librdkafka's second names → the name that we use."""

_SECRET_MARKS = (
    "password",
    "passphrase",
    "username",
    "secret",
    "jaas",
    # Certificates are none, but the text of one often has its key with it.
    ".pem",
    "private.key",
    "keystore.key",
    "ssl_key",
    "oauthbearer.config",
    "token",
    "sharedaccess",
)
# From which file, and where, in spite of a mark in the name.
_FILE = "sasl.oauthbearer.assertion.private.key.file"
_URL = "sasl.oauthbearer.token.endpoint.url"
# No user in front of the host, and nothing behind the path: a key may stand in either.
_PLAIN_URL = re.compile(r"https?://[^\s@?#]+", re.IGNORECASE)


def is_secret(name: str, value: object = None) -> bool:
    """Say whether the value of this property must not be shown; without the value, whether it may be one."""
    lower = name.lower()
    if lower == _URL:
        return not (isinstance(value, str) and _PLAIN_URL.fullmatch(value))
    return lower != _FILE and (any(mark in lower for mark in _SECRET_MARKS) or may_be_secret(lower))


def shown(name: str, value: object) -> str:
    """Return the value for a message: `***` where it may be a secret, else its repr, shortened."""
    # A connection string lands in the wrong argument easily.
    text = _text(value)
    hidden = is_secret(name, value) or "sharedaccess" in text.lower()
    return "***" if hidden else f"{text:.80}"


def _text(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no number of more than 4 300 digits
        return f"a value of type {type(value).__name__}, too long to show"


def check_mapping(given: object, what: str) -> None:
    """Refuse what has no names. Raises `ConfigurationError` without its text, which may hold a key."""
    if not isinstance(given, Mapping):
        kind = f"{'are' if what.endswith('s') else 'is'} of type {type(given).__name__}"
        raise ConfigurationError(f"{what} {kind}, not a mapping of names: give {{'name': value}}.")
    for name in given:
        if not isinstance(name, str):
            raise ConfigurationError(f"{what}: a name is {type(name).__name__}, not text.")


def in_one_spelling(properties: Mapping[str, Value] | None, origin: str) -> dict[str, Any]:
    """Copy the properties under the names that we use. Raises ConfigurationError for a bad name or value."""
    if properties is None:
        return {}
    check_mapping(properties, f"{origin}: the properties")
    result: dict[str, Any] = {}
    for given, value in properties.items():
        name = ALIASES.get(given, given)
        value = listed(value) if name == "bootstrap.servers" else value  # noqa: PLW2901
        _check_item(given, value, origin)
        if name in result and str(result[name]) != str(value):
            raise ConfigurationError(
                f"{origin}: {name} is given twice with different values, once as "
                f"{given if given != name else 'its alias'}: keep only {name}"
            )
        result[name] = value
    return result


def _check_item(name: str, value: object, origin: str) -> None:
    check_text(name, f"{origin}: a property's name")
    if (meant := meant_by(name)) is not None:
        raise ConfigurationError(f"{origin}: librdkafka knows no property {name!r}; did you mean {meant}?")
    if isinstance(value, str):
        check_text(value, f"{origin}: the value of {name}")
    if name == "default.topic.config":
        # Its entries would slip past every check below.
        raise ConfigurationError(
            f"{origin}: default.topic.config is not supported: give its entries directly, next to the "
            f"other properties"
        )
    if value is None:
        # librdkafka reads it as "back to its own default", which may be the unsafe one.
        raise ConfigurationError(f"{origin}: {name} is None: leave it out, or give a value")
    if not isinstance(value, str | int | float) and not callable(value):
        raise ConfigurationError(
            f"{origin}: the value of {name} is of type {type(value).__name__}: give text, a number, true, "
            f"false, or a function for a callback"
        )
