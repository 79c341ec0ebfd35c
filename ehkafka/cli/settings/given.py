"""Settings from outside the code, laid over one another: flag over variable over file.

Read before the app's module is imported, applied to the app afterwards; the app's own code stands below
all of them and ehkafka's defaults below that. Called on the main thread, once per command.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ehkafka import Endpoint
from ehkafka.app.configuration import ENDPOINT_WAYS, in_one_spelling
from ehkafka.cli.exits import note
from ehkafka.cli.settings.file import DEFAULT_FILE, read_file
from ehkafka.cli.settings.layer import Layer
from ehkafka.cli.settings.unasked import check_credentials, names_broker
from ehkafka.cli.settings.variables import CONFIG_VARIABLE, read_environment, read_flags
from ehkafka.errors import ConfigurationError
from ehkafka.settings import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ehkafka import App


@dataclass(frozen=True, slots=True)
class Given:
    """What file, environment and flags say together; `file` is what was read, if any."""

    layer: Layer
    file: Path | None
    # The broker is the one of a file that nobody named.
    broker_unasked: bool = False

    @classmethod
    def read(cls, config: Path | None = None, assignments: Sequence[str] = ()) -> Self:
        """Read all sources. `config` is the file; by default `EHKAFKA_CONFIG`, else ./ehkafka.toml if there.

        Raises `ConfigurationError`.
        """
        file, unasked = _file(config)
        if unasked:
            note(f"reads {file} of this folder, which nobody named; --config names a file.")
        below = Layer() if file is None else read_file(file, unasked=unasked)
        above = (read_environment(), read_flags(assignments))
        is_replaced = any(map(names_broker, above))
        if unasked and is_replaced:
            _drop_properties(below, file)
        given = cls(_over((below, *above)), file, unasked and names_broker(below) and not is_replaced)
        for table in PROPERTIES:
            given.check_login(given.layer.table(table), f"{table}.")
        given.check_login(given.layer.properties, "endpoint.properties.")
        return given

    def check_login(self, properties: Mapping[str, Any], prefix: str, usual: str = "code") -> None:
        """Refuse a login of others for an unasked file's broker. Raises `ConfigurationError`."""
        if self.broker_unasked:
            origins = [self.layer.origins.get(prefix + name, usual) for name in properties]
            check_credentials(self.file, properties, origins)

    def apply(self, app: App) -> None:
        """Lay the settings over the app's own. Raises `ConfigurationError`."""
        endpoint = self._endpoint_for(app)
        origins = {**self.layer.origins, "endpoint": self.endpoint_origin}
        handlers = self._handlers_of(app, origins)
        if endpoint is None and not (
            self.layer.settings or handlers or any(map(self.layer.table, PROPERTIES))
        ):
            return
        if endpoint is not None:
            # What the code says of a login, it says of a broker that it expects.
            for table in PROPERTIES:
                kept = in_one_spelling(getattr(app.settings, table), f"App({table}=…)")
                laid = self.layer.table(table)
                self.check_login({name: value for name, value in kept.items() if name not in laid}, "code.")
        settings = {**self.layer.settings, **{table: self.layer.table(table) for table in PROPERTIES}}
        app.configure(endpoint=endpoint, handlers=handlers, origins=origins, **settings)

    def _handlers_of(self, app: App, origins: dict[str, str]) -> dict[str, dict[str, Any]]:
        """Return what is laid over the handlers' options, and add where each stands to the origins."""
        if not self.layer.handlers:
            return {}
        from ehkafka.cli.settings.handlers import resolved  # noqa: PLC0415 - few have any

        found = resolved(self.layer.handlers, app.tunable_handlers)
        origins.update(found.origins)
        return found.options

    def endpoint(self) -> Endpoint:
        """Return the endpoint that environment and file name. Raises `ConfigurationError`."""
        named = self.layer.origins
        if not any(way in self.layer.endpoint for way in ENDPOINT_WAYS):
            # Says what is missing, and what may be misspelt.
            return Endpoint.from_env()
        return Endpoint.from_settings(
            self.layer.endpoint,
            properties=self.layer.properties,
            named=lambda key: named.get(f"endpoint.{key}", key),
        )

    @property
    def endpoint_origin(self) -> str:
        """Where the endpoint's way in stands."""
        ways = (f"endpoint.{way}" for way in ENDPOINT_WAYS)
        return next((self.layer.origins[way] for way in ways if way in self.layer.origins), "environment")

    def _endpoint_for(self, app: App) -> Endpoint | None:
        """Return an endpoint for an app that has none. What a file says for nobody is refused."""
        if app.takes_endpoint:
            return self.endpoint()
        start = f"{self.file}: endpoint."
        if unused := [origin for origin in self.layer.origins.values() if origin.startswith(start)]:
            raise ConfigurationError(
                f"{unused[0]} has no effect, for the app's code gives its endpoint itself. Leave one of them"
                " out: App(…) without endpoint= takes the file's."
            )
        return None


def _file(config: Path | None) -> tuple[Path | None, bool]:
    """Return the file, and whether nobody named it."""
    if config is None and (named := os.environ.get(CONFIG_VARIABLE)):
        config = Path(named)
    if config is None:
        return (DEFAULT_FILE, True) if DEFAULT_FILE.is_file() else (None, False)
    if "sharedaccess" in str(config).lower():
        # Its name would be given as the origin of what it holds.
        raise ConfigurationError(
            f"{CONFIG_VARIABLE} or --config holds a connection string, and no file's name."
        )
    return config, False


def _drop_properties(below: Layer, file: Path | None) -> None:
    """Give a broker that others name no property of a file that nobody named."""
    if below.properties:
        logging.getLogger("ehkafka").warning(
            "%s gives [endpoint.properties], which are not used: a variable names the broker, and nobody"
            " named the file. Use variables, EHKAFKA_PROPERTY_…, for that broker.",
            file,
        )
    for name in below.properties:
        del below.origins[f"endpoint.properties.{name}"]
    below.properties.clear()


def _over(layers: Iterable[Layer]) -> Layer:
    """Lay each layer over those before it."""
    result = Layer()
    for layer in layers:
        _replace_endpoint(result, layer)
        result.settings.update(layer.settings)
        result.handlers.extend(layer.handlers)
        of_properties = (*(f"{table}." for table in PROPERTIES), "endpoint.properties.")
        result.origins.update(
            {name: origin for name, origin in layer.origins.items() if not name.startswith(of_properties)}
        )
        for table in PROPERTIES:
            _lay(result, result.table(table), layer, layer.table(table), table)
        _lay(result, result.properties, layer, layer.properties, "endpoint.properties")
    return result


def _lay(
    result: Layer, into: dict[str, Any], layer: Layer, properties: Mapping[str, Any], table: str
) -> None:
    """Lay properties over those before, each in our spelling with its origin."""
    in_one_spelling(properties, table)  # as a whole: two names of one property may contradict
    for name, value in properties.items():
        ((known, kept),) = in_one_spelling({name: value}, table).items()
        into[known] = kept
        result.origins[f"{table}.{known}"] = layer.origins[f"{table}.{name}"]


def _replace_endpoint(result: Layer, layer: Layer) -> None:
    """Let a way in replace the one below it, with all that belongs to it: its properties, too."""
    if names_broker(layer):
        if names_broker(result):
            for name in [*result.properties]:
                del result.properties[name], result.origins[f"endpoint.properties.{name}"]
        for key in [*result.endpoint]:
            del result.endpoint[key], result.origins[f"endpoint.{key}"]
    result.endpoint.update(layer.endpoint)
