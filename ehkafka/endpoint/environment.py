"""Which way in a set of plain settings names: the environment's variables, or a file's table.

Pure: reads mappings, opens nothing, and never repeats a value, for any of them may be a secret. Called by
`Endpoint.from_env` and `Endpoint.from_settings`, on the caller's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended
from ehkafka.wording.calling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Way = Literal["connection_string", "connection_string_file", "namespace", "bootstrap"]

WAYS: tuple[Way, ...] = get_args(Way)
"""The settings of which exactly one is given."""

ADDITIONS: Mapping[str, Way] = {"credential": "namespace", "client_id": "namespace"}
"""Settings that belong to one of the ways."""

KEYS = (*WAYS, *ADDITIONS)

_DESCRIBED = {
    "connection_string": "",
    "connection_string_file": " (a path)",
    "namespace": " (Entra ID)",
    "bootstrap": " (any Kafka, 'host:port')",
}
_PROPERTY = "PROPERTY_"
# The one property of librdkafka with an underscore whose value is text; the others are callbacks.
_WITH_UNDERSCORE = {"log.level": "log_level"}


class Variables(NamedTuple):
    """What the environment says: the settings by key, librdkafka's properties by name."""

    settings: dict[str, str]
    properties: dict[str, str]


def read_variables(environ: Mapping[str, str], prefix: str) -> Variables:
    """Return the endpoint's variables that are set; an empty one counts as not set."""
    settings = {key: environ[prefix + key.upper()] for key in KEYS if environ.get(prefix + key.upper())}
    start = prefix + _PROPERTY
    properties = {
        property_name(name.removeprefix(start)): value
        for name, value in environ.items()
        if name.startswith(start) and name != start and value
    }
    return Variables(settings, properties)


def property_name(written: str) -> str:
    """Return librdkafka's name for one written as a variable, `SSL_CA_LOCATION` → `ssl.ca.location`."""
    name = written.lower().replace("_", ".")
    return _WITH_UNDERSCORE.get(name, name)


def chosen_way(settings: Mapping[str, str], named: Callable[[str], str]) -> Way:
    """Return the one way in that is given; `named` says what the user calls a key.

    Raises `ConfigurationError` with names alone when there is none, or two, or something without its way.
    """
    for key in settings:
        if key not in KEYS:
            raise ConfigurationError(
                ended(f"The endpoint has no setting {named(key)}{did_you_mean(key, KEYS, 0.85)}")
            )
    given = [way for way in WAYS if way in settings]
    if not given:
        raise ConfigurationError(f"The endpoint is missing: set one of {_ways(named)}.")
    if len(given) > 1:
        raise ConfigurationError(
            f"The endpoint is given {len(given)} times, by {' and '.join(map(named, given))}: keep one."
        )
    for key, way in ADDITIONS.items():
        if key in settings and way != given[0]:
            raise ConfigurationError(
                f"{named(key)} works only with {named(way)}, but {named(given[0])} names the endpoint: "
                f"leave one of the two out."
            )
    return given[0]


def missing_hint(environ: Mapping[str, str], found: Variables, prefix: str) -> str:
    """Return what may explain that no way in is set: a variable that is empty, or one misspelt."""
    if any(way in found.settings for way in WAYS):
        return ""
    known = [prefix + key.upper() for key in KEYS]
    seen = [f" {name} is there, but empty." for name in known if environ.get(name) == ""]
    others = sorted(name for name in environ if name not in known)
    seen += [
        f" There is a variable {name}{close}" for name in others if (close := did_you_mean(name, known, 0.85))
    ]
    return "".join(seen)


def _ways(named: Callable[[str], str]) -> str:
    *first, last = (f"{named(way)}{_DESCRIBED[way]}" for way in WAYS)
    return f"{', '.join(first)} or {last}"
