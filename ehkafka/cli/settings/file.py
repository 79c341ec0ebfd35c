"""Reads settings from a TOML file: its tables [app], [endpoint], [consumer], [producer], [handlers.NAME].

Opens the one file once, for it may be a pipe, on the main thread, before the app is imported. It refuses what
it does not know, and warns when others on the machine can read a secret in it. No error repeats a value that
may be a secret.
"""

from __future__ import annotations

import logging
import os
import stat
import tomllib
from typing import TYPE_CHECKING, Any

from ehkafka.app.configuration import ENDPOINT_KEYS, is_secret
from ehkafka.app.handler_options import OPTIONS
from ehkafka.cli.settings.layer import NAMES, OF_PROPERTIES, TABLES, Layer, hint
from ehkafka.errors import ConfigurationError
from ehkafka.settings import PROPERTIES
from ehkafka.wording import ended
from ehkafka.wording.calling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

_TABLES = ("app", "endpoint", *PROPERTIES, "handlers")
_KNOWN = {"app": NAMES, "endpoint": (*ENDPOINT_KEYS, "properties")}
_SECRET_KEYS = ("connection_string",)
# A settings file has a page of text. More than this is another file, or a stream without an end.
BYTES_MAX = 1024 * 1024


def read_file(path: Path) -> Layer:
    """Return what the file says. Raises `ConfigurationError` naming file and key."""
    content, mode = _content(path)
    try:
        layer = _layer(path, _tables(path, content))
    except RecursionError:
        raise ConfigurationError(
            f"{path} is not a settings file: its tables are nested too deeply."
        ) from None
    _warn_of_secrets(path, layer, mode)
    return layer


def _layer(path: Path, tables: dict[str, Any]) -> Layer:
    for name in tables:
        if name not in _TABLES:
            raise ConfigurationError(
                ended(f"{path}: there is no table [{name}]{did_you_mean(name, _TABLES)}")
            )
    for name in _TABLES:
        if not isinstance(tables.setdefault(name, {}), dict):
            raise ConfigurationError(f"{path}: {name} is not a table; write [{name}].")
    tables["endpoint"] = dict(tables["endpoint"])
    tables["endpoint.properties"] = properties = tables["endpoint"].pop("properties", {})
    if not isinstance(properties, dict):
        raise ConfigurationError(f"{path}: endpoint.properties is not a table; write [endpoint.properties].")
    layer = Layer()
    for table in TABLES:
        written = tables[table] if table in _KNOWN else dict(_flat(tables[table]))
        for name, value in written.items():
            if table in _KNOWN:
                _must_be_known(path, table, name, _KNOWN[table])
            layer.take(table, name, value, f"{path}: {table}.{name}", is_text=False)
    if tables["handlers"]:
        _take_handlers(path, tables["handlers"], layer)
    return layer


def _take_handlers(path: Path, handlers: Mapping[str, object], layer: Layer) -> None:
    for handler, options in handlers.items():
        table = f"handlers.{handler}"
        if not isinstance(options, dict):
            raise ConfigurationError(f"{path}: {table} is not a table; write [{table}].")
        for option, value in options.items():
            _must_be_known(path, table, option, OPTIONS)
            layer.take_option(handler, option, value, f"{path}: {table}.{option}", is_text=False)


def _must_be_known(path: Path, table: str, name: str, known: Collection[str]) -> None:
    if name in known:
        return
    meant = did_you_mean(name, known)
    if table == "app":
        if name in PROPERTIES:
            raise ConfigurationError(f"{path}: app.{name} is not a setting; write a table [{name}].")
        meant = hint(name, of="it below [handlers.NAME]") or meant
    what = "option" if table.startswith("handlers.") else "setting"
    raise ConfigurationError(ended(f"{path}: there is no {what} {table}.{name}{meant}"))


def _content(path: Path) -> tuple[bytes, int]:
    """Return the bytes and the mode of the file, opened once: a pipe can be read once."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise _unreadable(f"{path} cannot be read: its name contains a NUL or is not UTF-8") from None
    if len(content) > BYTES_MAX:
        raise _unreadable(f"{path} has more than {BYTES_MAX} bytes, which is not a settings file")
    if not content and stat.S_ISFIFO(mode):
        raise _unreadable(f"{path} is a pipe that ended without a byte: check the command that writes to it")
    return content, mode


def _tables(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode().replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        # A later Python's error holds the whole text.
        words = str(error.args[0])
    except UnicodeDecodeError:
        words = "it is not UTF-8"
    except ValueError:
        # A number of thousands of digits; Python's own text tells of its internals.
        words = "it holds a number or a date that is too large"
    raise _unreadable(f"{path} is not TOML: {words}")


def _unreadable(words: str) -> ConfigurationError:
    return ConfigurationError(f"{words}. Correct the file; nothing was started.")


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    """Yield librdkafka's dotted names, whether they were written in quotes or as TOML's own dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _warn_of_secrets(path: Path, layer: Layer, mode: int) -> None:
    secret = [f"endpoint.{name}" for name in _SECRET_KEYS if name in layer.tables["endpoint"]]
    for table in OF_PROPERTIES:
        secret += [f"{table}.{name}" for name, value in layer.values(table).items() if is_secret(name, value)]
    if secret and stat.S_ISREG(mode) and mode & stat.S_IROTH:
        logging.getLogger("ehkafka").warning(
            "%s holds a secret (%s) and everybody on this machine can read it. Run chmod 600 on it, or"
            " name a file of its own with endpoint.connection_string_file.",
            path,
            ", ".join(secret),
        )
