"""`ehkafka run`: its options, what they may not be together, and the run. On the main thread."""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka.cli.app_path import load_app
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.log_setup import LogFormat, LogFormatOption, LogLevel, LogLevelOption, log_to_stderr
from ehkafka.cli.options import Assignments, Config, given_options, only_with
from ehkafka.cli.reload.reloading import Reload, run_reloading
from ehkafka.cli.run_spark import SparkArguments, run_on_spark
from ehkafka.cli.settings.given import Given
from ehkafka.errors import ConfigurationError
from ehkafka.events import AppStopping, Draining
from ehkafka.http import Http
from ehkafka.members.count import count_from_text

if TYPE_CHECKING:
    from ehkafka import App
    from ehkafka.events import Event

cli = CommandLine()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndArguments:
    """What was given for the end of a run."""

    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up",
            help="Stop with code 0 when all records up to the current ends of the logs are done and "
            "committed.",
        ),
    ] = False
    settle_for_s: Annotated[
        float | None,
        typer.Option(
            "--settle-for",
            metavar="SECONDS",
            min=0.1,
            help="With --until-caught-up: how long records may wait (on hold, for a retry, paused) before "
            "the run stops with code 4.",
            show_default="60",
        ),
    ] = None

    def arguments(self, *, on_spark: bool) -> dict[str, Any]:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        if self.until_caught_up and on_spark:
            raise ConfigurationError(
                "--until-caught-up does not work with --engine spark: use --available-now instead."
            )
        if not self.until_caught_up:
            only_with("--until-caught-up", self)
            return {}
        settle_s = {} if self.settle_for_s is None else {"settle_s": self.settle_for_s}
        return {"until": "caught_up", **settle_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """What was given for members."""

    members: Annotated[
        str | None,
        typer.Option(
            "--members",
            metavar="N",
            help="Run the app in N processes; auto runs one for each core. Default: in this process.",
        ),
    ] = None
    members_min: Annotated[
        int | None,
        typer.Option(
            "--members-min",
            metavar="N",
            help="The number of ready members below which /ready fails.",
            show_default="1",
        ),
    ] = None
    hung_s: Annotated[
        float | None,
        typer.Option(
            "--hung-s",
            metavar="SECONDS",
            help="Kill and restart a member that has not been live for this time. Default: never.",
        ),
    ] = None
    health_file: Annotated[
        Path | None,
        typer.Option(
            "--health-file", metavar="FILE", help="Touch this file every two seconds while the app is live."
        ),
    ] = None

    def arguments(self, *, on_spark: bool) -> dict[str, Any]:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        if on_spark and (named := given_options(self)):
            raise ConfigurationError(
                f"--engine spark does not work with {', '.join(named)}, because Spark itself runs and "
                f"restarts its tasks. Leave out --engine spark, or the other options."
            )
        if self.members is None:
            only_with("--members", self, but=("health_file",))
        count = None if self.members is None else count_from_text(self.members)
        return {**asdict(self), "members": count}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpArguments:
    """What was given for HTTP."""

    http: Annotated[
        str | None,
        typer.Option(
            "--http", metavar="HOST:PORT", help="Serve probes, metrics, the page and actions at this address."
        ),
    ] = None
    http_token_file: Annotated[
        Path | None,
        typer.Option(
            "--http-token-file", metavar="FILE", help="The file with the token that actions require."
        ),
    ] = None
    http_host: Annotated[
        list[str] | None,
        typer.Option(
            "--http-host",
            metavar="NAME",
            help="A further host name under which browsers open the page; may be given several times.",
        ),
    ] = None
    http_values: Annotated[
        bool,
        typer.Option("--http-values/--no-http-values", help="Show the beginning of each value on the page."),
    ] = True

    def options(self) -> Http | None:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        if self.http is None:
            only_with("--http HOST:PORT", self)
            return None
        return Http(
            address=self.http,
            token_file=self.http_token_file,
            hosts=tuple(self.http_host or ()),
            shows_values=self.http_values,
        )


@cli.command("run")
def run(
    app: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The ehkafka.App to run.")],
    *,
    log_level: LogLevelOption = LogLevel.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
    config: Config = None,
    assignments: Assignments = None,
    reset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Before the app starts, move the group to start=, once for each NAME. The group must have "
            "no members.",
        ),
    ] = None,
    until: EndArguments,
    members: Members,
    served: HttpArguments,
    reload: Reload,
    spark: SparkArguments,
) -> int | None:
    r"""Run an app until a signal stops it, an error ends it, or it has caught up.

    The first Ctrl-C (or SIGTERM) stops receiving, finishes the records that have started, and commits. With
    --set drain=all it finishes all received records. The second Ctrl-C stops at once and lists the records
    that will be handled again.

    \b
    Examples:
      ehkafka run shop.orders:app             the name app in the module shop/orders.py
      ehkafka run shop.orders                 the same: app is the default name
      ehkafka run examples/hello/app.py       an app in a file
      ehkafka run shop.orders --log-level debug
      ehkafka run shop.orders --config prod.toml --set drain_s=20
      ehkafka run shop.orders --members auto  one process for each core
      ehkafka run shop.orders --http 127.0.0.1:8080   with probes, metrics and a page
      ehkafka run shop.orders --until-caught-up
      ehkafka run shop.orders --reload        restart when a Python file changes
      ehkafka run shop.orders --engine spark --checkpoint /mnt/orders

    """
    log_to_stderr(log_level, log_format)
    on_spark = spark.is_wanted
    spark.check()
    reload.check(members=members.members, on_spark=on_spark)
    if reload.reload:
        return run_reloading(reload.watched(app), sys.argv)
    arguments = until.arguments(on_spark=on_spark) | members.arguments(on_spark=on_spark)
    http = served.options()
    named = () if reset is None else (f"reset={reset}",)
    given = Given.read(config, (*(assignments or ()), *named))
    found = load_app(app)
    given.apply(found)
    for_eyes = log_format is LogFormat.TEXT
    if for_eyes:
        found.add_hook(StopNotice(log_level.number))
    if on_spark:
        run_on_spark(found, app, spark, http)
        return None
    in_members = members.members is not None
    is_drawn = for_eyes and sys.stderr.isatty()
    with _view(found, until, in_members=in_members) if is_drawn else nullcontext():
        found.run(**arguments, http=http)
    return None


def _view(app: App, until: EndArguments, *, in_members: bool) -> AbstractContextManager[None]:
    # A container's log needs none of it.
    from ehkafka.cli.run_view import members_shown, progress_shown  # noqa: PLC0415

    return members_shown(app) if in_members else progress_shown(app, to_end=until.until_caught_up)


class StopNotice:
    """A hook: says how to exit at once; counts down where the log level hides the log's own countdown."""

    def __init__(self, log_level: int) -> None:
        self._log_shows_it = log_level <= logging.INFO

    def on_event(self, event: Event, /) -> None:
        """Write a line for the two events that matter here."""
        if isinstance(event, AppStopping) and event.drain != "running" and event.reason == "SIGINT":
            what = "received" if event.drain == "all" else "started"
            typer.echo(f"Finishing the {what} records; press Ctrl-C again to stop at once.", err=True)
        elif isinstance(event, Draining) and not self._log_shows_it:
            typer.echo(event.sentence(), err=True)
