"""Settings from outside the code, laid over one another: flag over variable over file.

Read before the app's module is imported, applied to the app afterwards; the app's own code stands below
all of them and ehkafka's defaults below that. Called on the main thread, once per command.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ehkafka import ConfigurationError, Endpoint
from ehkafka.cli.settings_file import DEFAULT_FILE, read_file
from ehkafka.cli.settings_layer import Layer
from ehkafka.cli.settings_variables import CONFIG_VARIABLE, read_environment, read_flags
from ehkafka.configuration import ENDPOINT_WAYS, in_one_spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka import App


@dataclass(frozen=True, slots=True)
class Given:
    """What file, environment and flags say together; `file` is what was read, if any."""

    layer: Layer
    file: Path | None

    @classmethod
    def read(cls, config: Path | None = None, assignments: Sequence[str] = ()) -> Self:
        """Read all sources. `config` is the file; by default `EHKAFKA_CONFIG`, else ./ehkafka.toml if there.

        Raises `ConfigurationError`.
        """
        file = _file(config)
        below = Layer() if file is None else read_file(file)
        return cls(_over((below, read_environment(), read_flags(assignments))), file)

    def apply(self, app: App) -> None:
        """Lay the settings over the app's own. Raises `ConfigurationError`."""
        endpoint = self._endpoint_for(app)
        origins = {**self.layer.origins, "endpoint": self.endpoint_origin}
        if endpoint is None and not self.layer.settings and not self.layer.consumer:
            return
        app.configure(endpoint=endpoint, origins=origins, **self.layer.settings, consumer=self.layer.consumer)

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


def _file(config: Path | None) -> Path | None:
    if config is None and (named := os.environ.get(CONFIG_VARIABLE)):
        config = Path(named)
    if config is None:
        return DEFAULT_FILE if DEFAULT_FILE.is_file() else None
    if "sharedaccess" in str(config).lower():
        # Its name would be told as the origin of what it holds.
        raise ConfigurationError(
            f"{CONFIG_VARIABLE} or --config holds a connection string, and no file's name."
        )
    return config


def _over(layers: Iterable[Layer]) -> Layer:
    """Lay each layer over those before it."""
    result = Layer()
    for layer in layers:
        _replace_endpoint(result, layer)
        result.settings.update(layer.settings)
        result.properties.update(in_one_spelling(layer.properties, "endpoint.properties"))
        result.origins.update(
            {name: origin for name, origin in layer.origins.items() if not name.startswith("consumer.")}
        )
        for name, value in layer.consumer.items():
            ((known, kept),) = in_one_spelling({name: value}, "consumer").items()
            result.consumer[known] = kept
            result.origins[f"consumer.{known}"] = layer.origins[f"consumer.{name}"]
    return result


def _replace_endpoint(result: Layer, layer: Layer) -> None:
    """Let a way in replace the one below it, with all that belongs to it."""
    if any(way in layer.endpoint for way in ENDPOINT_WAYS):
        for key in [*result.endpoint]:
            del result.endpoint[key], result.origins[f"endpoint.{key}"]
    result.endpoint.update(layer.endpoint)
