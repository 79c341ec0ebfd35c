"""Reads settings from a TOML file: the tables [app], [endpoint], [endpoint.properties] and [consumer].

Opens the one file, on the main thread, before the app is imported. It refuses what it does not know, and
warns when others on the machine can read a secret in it. No error repeats a value that may be a secret.
"""

from __future__ import annotations

import logging
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_settings import TomlConfigSettingsSource

from ehkafka import ConfigurationError
from ehkafka.cli.settings_layer import Layer, close_to
from ehkafka.cli.settings_model import TYPES, AppVariables, checked
from ehkafka.configuration import ENDPOINT_KEYS, is_secret, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_FILE = Path("ehkafka.toml")
_TABLES = ("app", "endpoint", "consumer")
_SECRET_KEYS = ("connection_string",)


def read_file(path: Path) -> Layer:
    """Return what the file says. Raises `ConfigurationError` naming file and key."""
    tables = _tables(path)
    for name in tables:
        if name not in _TABLES:
            raise ConfigurationError(f"{path}: there is no table [{name}]{close_to(name, _TABLES)}.")
    for name in _TABLES:
        if not isinstance(tables.setdefault(name, {}), dict):
            raise ConfigurationError(f"{path}: {name} is no table; write [{name}].")
    endpoint = dict(tables["endpoint"])
    properties = endpoint.pop("properties", {})
    if not isinstance(properties, dict):
        raise ConfigurationError(f"{path}: endpoint.properties is no table; write [endpoint.properties].")
    layer = Layer(
        settings=_app_settings(path, tables["app"]),
        consumer=_properties(path, "consumer", tables["consumer"]),
        endpoint=_endpoint_settings(path, endpoint),
        properties=_properties(path, "endpoint.properties", properties),
    )
    _name_origins(path, layer)
    _warn_of_secrets(path, layer)
    return layer


def _tables(path: Path) -> dict[str, Any]:
    said = None
    try:
        # Not by pydantic-settings: it takes a missing file for an empty one.
        path.open("rb").close()
        return dict(TomlConfigSettingsSource(AppVariables, path).toml_data)
    except tomllib.TOMLDecodeError as error:
        # A later Python's error holds the whole text.
        said = f"{path} is no TOML: {error.args[0]}"
    except UnicodeDecodeError:
        said = f"{path} is no TOML: it is not UTF-8"
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
    raise ConfigurationError(f"{said}: correct it, nothing was started.")


def _app_settings(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    for name in table:
        if name == "consumer":
            raise ConfigurationError(f"{path}: app.consumer is no setting; write a table [consumer].")
        if name not in TYPES:
            raise ConfigurationError(f"{path}: there is no setting app.{name}{close_to(name, TYPES)}.")
    return {name: checked(name, value, f"{path}: app.{name}", is_text=False) for name, value in table.items()}


def _endpoint_settings(path: Path, table: Mapping[str, Any]) -> dict[str, str]:
    for name, value in table.items():
        if name not in ENDPOINT_KEYS:
            known = (*ENDPOINT_KEYS, "properties")
            raise ConfigurationError(f"{path}: there is no setting endpoint.{name}{close_to(name, known)}.")
        if not isinstance(value, str) or not value:
            raise ConfigurationError(f"{path}: endpoint.{name} must be text, and not empty.")
    return dict(table)


def _properties(path: Path, where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _scalar(path, f"{where}.{name}", name, value) for name, value in _flat(table)}


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield librdkafka's dotted names, whether they were written in quotes or as TOML's own dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _scalar(path: Path, key: str, name: str, value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise ConfigurationError(
            f"{path}: {key}={shown(name, value)} is refused: librdkafka takes text, a number or true/false."
        )
    return value


def _name_origins(path: Path, layer: Layer) -> None:
    layer.origins.update({name: f"{path}: app.{name}" for name in layer.settings})
    layer.origins.update({f"consumer.{name}": f"{path}: consumer.{name}" for name in layer.consumer})
    of_endpoint = (*layer.endpoint, *(f"properties.{name}" for name in layer.properties))
    layer.origins.update({f"endpoint.{name}": f"{path}: endpoint.{name}" for name in of_endpoint})


def _warn_of_secrets(path: Path, layer: Layer) -> None:
    secret = [f"endpoint.{name}" for name in _SECRET_KEYS if name in layer.endpoint]
    secret += [
        f"endpoint.properties.{name}" for name, value in layer.properties.items() if is_secret(name, value)
    ]
    secret += [f"consumer.{name}" for name, value in layer.consumer.items() if is_secret(name, value)]
    if secret and path.stat().st_mode & stat.S_IROTH:
        logging.getLogger("ehkafka").warning(
            "%s holds a secret (%s) and everybody on this machine can read it. Run chmod 600 on it, or"
            " name a file of its own with endpoint.connection_string_file.",
            path,
            ", ".join(secret),
        )
