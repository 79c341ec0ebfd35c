"""Options of `ehkafka run` for its HTTP side, and what they may not be together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ehkafka.cli.spark_options import Engine
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from ehkafka.http import Http


HttpAddress = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Serve probes, metrics, the page and actions there."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--http-token-file", metavar="FILE", help="The file with the token for actions."),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option("--http-host", metavar="NAME", help="A further name by which browsers reach the page."),
]
Advertised = Annotated[
    str | None,
    typer.Option("--http-advertise", metavar="URL", help="Where other members' pages find this one."),
]
ShowsValues = Annotated[
    bool, typer.Option("--http-values/--no-http-values", help="Show the begin of values on the page.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpGiven:
    """What was given for HTTP."""

    http: HttpAddress = None
    http_token_file: TokenFile = None
    http_host: HostNames = None
    http_advertise: Advertised = None
    http_values: ShowsValues = True

    def options(self, engine: Engine) -> Http | None:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        more = [self.http_token_file, self.http_host, self.http_advertise]
        if self.http is None:
            if any(one is not None for one in more) or not self.http_values:
                raise ConfigurationError(
                    "--http-… options are for --http HOST:PORT; add it, or leave them out."
                )
            return None
        if engine is Engine.SPARK:
            raise ConfigurationError("--http: not with --engine spark, which has a page of its own.")
        from ehkafka.http import Http  # noqa: PLC0415 - few runs have it

        return Http(
            address=self.http,
            token_file=self.http_token_file,
            hosts=tuple(self.http_host or ()),
            shows_values=self.http_values,
            advertise=self.http_advertise,
        )
