"""Settings from outside the code, laid over one another: flag over variable over file.

Read before the app's module is imported, applied to the app afterwards; the app's own code stands below
all of them and ehkafka's defaults below that. Called on the main thread, once per command.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ehkafka import Endpoint
from ehkafka.cli.settings.file import read_file
from ehkafka.cli.settings.layer import Layer
from ehkafka.cli.settings.variables import CONFIG_VARIABLE, read_environment, read_flags
from ehkafka.errors import ConfigurationError
from ehkafka.settings import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka import App


@dataclass(frozen=True, slots=True)
class Given:
    """What file, environment and flags say together; `file` is what was read, if any."""

    layer: Layer
    file: Path | None

    @classmethod
    def read(cls, config: Path | None = None, assignments: Sequence[str] = ()) -> Self:
        """Read all sources. `config` is the file, by default the one that `EHKAFKA_CONFIG` names.

        No file is read that is only found in the folder: it could send the environment's key to any server.
        Raises `ConfigurationError`.
        """
        file = _file(config)
        layer = Layer()
        below = Layer() if file is None else read_file(file)
        for one in (below, read_environment(), read_flags(assignments)):
            layer.lay(one)
        return cls(layer, file)

    def apply(self, app: App) -> None:
        """Lay the settings over the app's own. Raises `ConfigurationError`."""
        endpoint = self._endpoint_for(app)
        origins = {**self.layer.origins(), "endpoint": self.endpoint_origin}
        handlers = self._handlers_of(app, origins)
        tables: dict[str, Any] = {table: self.layer.values(table) for table in PROPERTIES}
        settings = self.layer.values("app")
        if endpoint is None and not (settings or handlers or any(tables.values())):
            return
        app.configure(endpoint=endpoint, handlers=handlers, origins=origins, **settings, **tables)

    def _handlers_of(self, app: App, origins: dict[str, str]) -> dict[str, dict[str, Any]]:
        """Return what is laid over the handlers' options, and add where each stands to the origins."""
        if not self.layer.handlers:
            return {}
        from ehkafka.cli.settings.handlers import resolved  # noqa: PLC0415 - few have any

        options, of_options = resolved(self.layer.handlers, app.tunable_handlers)
        origins.update(of_options)
        return options

    def endpoint(self) -> Endpoint:
        """Return the endpoint that environment and file name. Raises `ConfigurationError`."""
        if self.layer.way is None:
            # Says what is missing, and what may be misspelt.
            return Endpoint.from_env()
        named = self.layer.origins()
        return Endpoint.from_settings(
            self.layer.values("endpoint"),
            properties=self.layer.values("endpoint.properties"),
            named=lambda key: named.get(f"endpoint.{key}", key),
        )

    @property
    def endpoint_origin(self) -> str:
        """Where the endpoint's way in stands."""
        return "environment" if self.layer.way is None else self.layer.way.origin

    def _endpoint_for(self, app: App) -> Endpoint | None:
        """Return an endpoint for an app that has none. A file's endpoint for another app is refused."""
        if app.takes_endpoint:
            return self.endpoint()
        start = f"{self.file}: endpoint."
        if unused := [origin for origin in self.layer.origins().values() if origin.startswith(start)]:
            raise ConfigurationError(
                f"{unused[0]} has no effect, because the app's code gives the endpoint. Leave one of the "
                f"two out: without endpoint=, App(…) takes the endpoint of the file."
            )
        return None


def _file(config: Path | None) -> Path | None:
    """Return the file that is named."""
    if config is None and (named := os.environ.get(CONFIG_VARIABLE)):
        config = Path(named)
    if "sharedaccess" in str(config).lower():
        # Its name would be given as the origin of what it holds.
        raise ConfigurationError(
            f"{CONFIG_VARIABLE} or --config contains a connection string instead of a file name: give the "
            f"name of the settings file."
        )
    return config
