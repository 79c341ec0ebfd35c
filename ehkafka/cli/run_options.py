"""Options of `ehkafka run`, and what they may not be together: several processes, an end by itself, HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka.cli.spark_options import Engine
from ehkafka.errors import ConfigurationError
from ehkafka.members.count import count_from_text

if TYPE_CHECKING:
    from ehkafka.http import Http

MembersOption = Annotated[
    str | None,
    typer.Option("--members", metavar="N", help="Run the app in N processes; auto: one for each core."),
]
MembersMin = Annotated[
    int | None,
    typer.Option("--members-min", metavar="N", help="With fewer members that are ready, /ready fails."),
]
HungS = Annotated[
    float | None,
    typer.Option("--hung-s", metavar="SECONDS", help="Kill and restart a member that is not live so long."),
]
HealthFile = Annotated[
    Path | None,
    typer.Option("--health-file", metavar="FILE", help="Touch it every few seconds while all is live."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersGiven:
    """What was given for members."""

    members: str | None
    members_min: int | None
    hung_s: float | None
    health_file: Path | None

    def arguments(self, engine: Engine) -> dict[str, Any]:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        given: dict[str, object] = {"--members": self.members, "--members-min": self.members_min}
        given |= {"--hung-s": self.hung_s, "--health-file": self.health_file}
        if engine is Engine.SPARK and (named := [name for name, value in given.items() if value is not None]):
            raise ConfigurationError(
                f"{', '.join(named)}: not with --engine spark, where tasks on executors do the work and "
                "Spark starts them again. Leave it out, or run without --engine spark."
            )
        if self.members is None and not (self.hung_s is None and self.members_min is None):
            raise ConfigurationError(
                "--hung-s and --members-min are for members: add --members 2, or leave them out."
            )
        count = None if self.members is None else count_from_text(self.members)
        return {
            "members": count,
            "members_min": self.members_min,
            "hung_s": self.hung_s,
            "health_file": self.health_file,
        }


UntilCaughtUp = Annotated[
    bool,
    typer.Option(
        "--until-caught-up", help="End with 0 when all up to where the logs end now is done and committed."
    ),
]
SettleForS = Annotated[
    float | None,
    typer.Option(
        "--settle-for",
        metavar="SECONDS",
        min=0.1,
        help="How long records may wait (held, for a retry, paused) before that ends with 4.",
        show_default="60",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilGiven:
    """What was given for the end of a run."""

    until_caught_up: bool
    settle_for_s: float | None

    def arguments(self, engine: Engine) -> dict[str, Any]:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        if self.until_caught_up and engine is Engine.SPARK:
            raise ConfigurationError(
                "--until-caught-up: not with --engine spark, where --available-now does the same."
            )
        if self.settle_for_s is not None and not self.until_caught_up:
            raise ConfigurationError("--settle-for is for --until-caught-up: add that, or leave it out.")
        if not self.until_caught_up:
            return {}
        settle_s = {} if self.settle_for_s is None else {"settle_s": self.settle_for_s}
        return {"until": "caught_up", **settle_s}


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
