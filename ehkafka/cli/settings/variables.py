"""Reads settings from the environment, `EHKAFKA_DRAIN_S=20`, and from flags, `--set drain_s=20`.

Those of one handler are `handlers`' business.

Reads `os.environ` once, on the main thread. An unknown variable that looks like a known one is refused,
any other is named and ignored: an orchestrator may have set it. No error repeats a value that may be a
secret.
"""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING

from ehkafka.app.configuration import ENDPOINT_KEYS, is_secret, property_name
from ehkafka.app.handler_options import OPTIONS
from ehkafka.cli.settings.layer import NAMES, PREFIX, HandlerValue, Layer, hint, names_like
from ehkafka.errors import ConfigurationError
from ehkafka.settings import PROPERTIES
from ehkafka.wording import ended
from ehkafka.wording.calling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
_OF_CLIENTS = {table: f"{PREFIX}{table.upper()}_" for table in PROPERTIES}
_OF_CLIENTS["endpoint.properties"] = f"{PREFIX}PROPERTY_"
_HANDLER = f"{PREFIX}HANDLER_"
# Of the tests and the demo broker's download, not of an app.
_OTHERS = {
    f"{PREFIX}{name}"
    for name in (
        *("BUSY_STARTS", "CACHE_DIR", "CALLS_RECORDS", "FAULTS_FILE", "FAULTS_SCALE", "FAULTS_SEED"),
        *("FUZZ_SEEDS", "INBOX_SEEDS", "LONG", "MAVEN_URL", "MYPY_CACHE", "NO_BROWSER", "OLDER_PYSPARK"),
        *("PIN_MEMBERS", "PROCESS_KILLS", "PROCESS_STRESS_SEEDS", "RANDOM_APP_SEEDS", "REQUIRE_BROKER"),
        *("RERUNS", "SENDER_SEEDS", "SIMULATION_SEEDS", "SIMULATION_SEEDS_WITH_BATCHES"),
        *("SIMULATION_SEEDS_WITH_TRANSACTIONS", "SOAK_FILE", "SOAK_MINUTES", "STORM_RECORDS", "VERSIONS"),
        *("PICTURES", "WAYS_RECORDS"),
    )
}
# Of commands themselves.
_COMMANDS = {f"{PREFIX}{name}" for name in ("HTTP_HOSTS", "HTTP_TOKEN", "HTTP_TOKEN_FILE", "LOG_LEVEL")}
# Of `BlobMirror.from_env`.
_MIRROR = {
    f"{PREFIX}MIRROR_{name}"
    for name in (
        *("CLIENT_ID", "CONNECTION_STRING", "CONNECTION_STRING_FILE", "CONTAINER", "CONTAINER_URL"),
        *("CREDENTIAL", "INTERVAL_S", "NAMESPACE"),
    )
}
# What Kubernetes sets in every pod next to a service named ehkafka or ehkafka-….
_KUBERNETES = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)$")


def read_environment() -> Layer:
    """Return what the process's variables say. Raises `ConfigurationError` naming the variable."""
    _check_names(os.environ)
    layer = Layer()
    _read_settings(layer)
    for key in ENDPOINT_KEYS:
        if text := os.environ.get(PREFIX + key.upper()):
            layer.take("endpoint", key, text, PREFIX + key.upper())
    for variable, text in os.environ.items():
        table = next((table for table, start in _OF_CLIENTS.items() if variable.startswith(start)), None)
        if table is not None and text and variable != _OF_CLIENTS[table]:
            name = property_name(variable.removeprefix(_OF_CLIENTS[table]))
            layer.take(table, name, text, variable)
        elif variable.startswith(_HANDLER) and text and not _KUBERNETES.search(variable):
            layer.handlers.append(HandlerValue(variable.removeprefix(_HANDLER), None, text, variable))
    return layer


def _read_settings(layer: Layer) -> None:
    known = {PREFIX + name.upper() for name in NAMES}
    if known.isdisjoint(map(str.upper, os.environ)):
        return
    from pydantic_settings import EnvSettingsSource  # noqa: PLC0415 - see `model`

    from ehkafka.cli.settings.model import AppVariables  # noqa: PLC0415 - see there

    for name, text in EnvSettingsSource(AppVariables)().items():
        layer.take("app", name, text, PREFIX + name.upper())


def read_flags(assignments: Iterable[str]) -> Layer:
    """Return what `--set NAME=VALUE` says. Raises `ConfigurationError`."""
    layer = Layer()
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ConfigurationError("--set takes NAME=VALUE, for instance --set drain_s=20.")
        if (table := name.partition(".")[0]) in PROPERTIES and table != name:
            _set_property(layer, table, name, text)
        elif name in NAMES:
            layer.take("app", name, text, f"--set {name}")
        else:
            _set_option(layer, name, text)
    return layer


def _set_option(layer: Layer, name: str, text: str) -> None:
    handler, _, option = name.rpartition(".")
    if handler and option in OPTIONS:
        layer.take_option(handler, option, text, f"--set {name}", is_text=True)
        return
    meant = hint(name, of=f"--set NAME.{name}=…") or did_you_mean(name, names_like(name))
    raise ConfigurationError(ended(f"--set: there is no setting {_named(name)}{meant}"))


def _set_property(layer: Layer, table: str, name: str, text: object) -> None:
    if is_secret(name, text):
        raise ConfigurationError(
            f"--set {name} is refused, because all users of this machine can read a command line. Use a "
            f"variable, {_OF_CLIENTS[table]}…, or a file."
        )
    layer.take(table, name.removeprefix(f"{table}."), text, f"--set {name}")


def _named(name: str) -> str:
    # A connection string may stand where a name belongs.
    return repr(name) if re.fullmatch(r"[a-z0-9_.]{1,60}", name) else "of that name"


def _check_names(environ: Mapping[str, str]) -> None:
    known = {
        CONFIG_VARIABLE,
        *_COMMANDS,
        *_MIRROR,
        *(PREFIX + name.upper() for name in (*NAMES, *ENDPOINT_KEYS)),
    }
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in known | _OTHERS or _KUBERNETES.search(name):
            continue
        if name.startswith((*_OF_CLIENTS.values(), _HANDLER)):
            continue
        if meant := _of_one(name):
            raise ConfigurationError(f"There is no variable {name}{meant}.")
        if close := did_you_mean(name, known, cutoff=0.85):
            raise ConfigurationError(
                f"There is no variable {name}{close} Correct the variable, or remove it."
            )
        logging.getLogger("ehkafka").warning(
            "The variable %s is not a setting of ehkafka; it is ignored.", name
        )


def _of_one(name: str) -> str:
    return hint(name.removeprefix(PREFIX).lower(), of=f"{_HANDLER}<NAME>_{name.removeprefix(PREFIX)}")
