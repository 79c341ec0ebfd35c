"""The command line: `run`, and the commands of `*_commands` joined to them.

As those it holds options and help texts with runnable examples, and nothing of what they do. Called by
`__main__`, on the main thread.
"""

from __future__ import annotations

import sys
from textwrap import indent
from typing import Annotated

import typer

import ehkafka
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.dlq.commands import dlq
from ehkafka.cli.exits import CODES, reported
from ehkafka.cli.inspect_commands import CHECK_HELP, CONFIG_HELP, TAIL_HELP, check, show_config, tail
from ehkafka.cli.keys.commands import keys
from ehkafka.cli.lag_commands import LAG_HELP, OWNERS_HELP, lag, owners
from ehkafka.cli.log_setup import LogFormat, LogFormatOption, LogLevel, LogLevelOption, log_to_stderr
from ehkafka.cli.offsets.commands import offsets
from ehkafka.cli.option_groups import grouped
from ehkafka.cli.options import Assignments, Config, Debug
from ehkafka.cli.reload.options import ReloadDirs, ReloadGiven, ReloadOption
from ehkafka.cli.run_options import (
    HealthFile,
    HttpGiven,
    HungS,
    MembersGiven,
    MembersMin,
    MembersOption,
    SettleForS,
    UntilCaughtUp,
    UntilGiven,
)
from ehkafka.cli.spark_options import (
    AvailableNow,
    BatchRecords,
    Checkpoint,
    Engine,
    EngineOption,
    IntervalS,
    Master,
    NewCheckpoint,
    SparkConf,
    SparkGiven,
)
from ehkafka.cli.top_commands import TOP_HELP, top

RUN_HELP = """Run an app until a signal stops it, an error ends it, or it has caught up.

The first Ctrl-C (or SIGTERM) stops receiving, finishes the records that have started (with --set drain=all,
all that were received) and commits. The second stops at once and names what will be handled again.

\b
Examples:
  ehkafka run shop.orders:app             the name app in the module shop/orders.py
  ehkafka run shop.orders                 the same: app is the default name
  ehkafka run examples/quickstart/app.py  a file
  ehkafka run shop.orders --log-level debug
  ehkafka run shop.orders --config prod.toml --set drain_s=20
  ehkafka run shop.orders --members auto  in a process for each core
  ehkafka run shop.orders --http 127.0.0.1:8080   with probes, metrics and a page
  ehkafka run shop.orders --until-caught-up
  ehkafka run shop.orders --reload        again when a Python file changes
  ehkafka run shop.orders --engine spark --checkpoint /mnt/orders

"""

HELP = "Consume Kafka-protocol records with strict order per key and commits that are never ahead."

cli = CommandLine(help=HELP)

cli.add_typer(dlq, name="dlq")
cli.add_typer(keys, name="keys")
cli.add_typer(offsets, name="offsets")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ehkafka {ehkafka.__version__}")
        raise typer.Exit


@cli.callback(epilog=f"\b\nExit codes of all commands:\n{indent(CODES, '  ')}")
def ehkafka_command(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Consume Kafka-protocol records with strict order per key and commits that are never ahead."""


@cli.command(help=RUN_HELP)
@grouped
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
            help="Move the group to start= first, once for each NAME. It must have no members.",
        ),
    ] = None,
    until_caught_up: UntilCaughtUp = False,
    settle_for_s: SettleForS = None,
    members: MembersOption = None,
    members_min: MembersMin = None,
    hung_s: HungS = None,
    health_file: HealthFile = None,
    http: HttpGiven,
    reload: ReloadOption = False,
    reload_dirs: ReloadDirs = None,
    engine: EngineOption = Engine.LOCAL,
    master: Master = None,
    checkpoint: Checkpoint = None,
    new_checkpoint: NewCheckpoint = False,
    available_now: AvailableNow = False,
    interval_s: IntervalS = None,
    batch_records: BatchRecords = None,
    spark_conf: SparkConf = None,
    debug: Debug = False,
) -> None:
    """Run an app until a signal stops it, an error ends it, or it has caught up."""
    from ehkafka.cli.app_path import load_app  # noqa: PLC0415 - help and other commands need no engine
    from ehkafka.cli.members_view import members_shown  # noqa: PLC0415 - likewise
    from ehkafka.cli.progress_view import progress_shown  # noqa: PLC0415 - likewise
    from ehkafka.cli.settings.given import Given  # noqa: PLC0415 - likewise
    from ehkafka.cli.stop_notice import StopNotice  # noqa: PLC0415 - likewise

    with reported(debug=debug):
        log_to_stderr(log_level, log_format)
        on_spark = SparkGiven(
            master=master,
            checkpoint=checkpoint,
            new_checkpoint=new_checkpoint,
            available_now=available_now,
            interval_s=interval_s,
            batch_records=batch_records,
            conf=tuple(spark_conf or ()),
        )
        on_spark.check(engine)
        on_change = ReloadGiven(is_wanted=reload, folders=tuple(reload_dirs or ()))
        on_change.check(engine, members)
        if reload:
            from ehkafka.cli.reload.reloading import run_reloading  # noqa: PLC0415 - likewise

            raise typer.Exit(run_reloading(on_change.watched(app), sys.argv))
        to_end = UntilGiven(until_caught_up=until_caught_up, settle_for_s=settle_for_s).arguments(engine)
        in_members = MembersGiven(
            members=members, members_min=members_min, hung_s=hung_s, health_file=health_file
        ).arguments(engine)
        served = http.options(engine)
        named = () if reset is None else (f"reset={reset}",)
        given = Given.read(config, (*(assignments or ()), *named))
        found = load_app(app)
        given.apply(found)
        for_eyes = log_format is LogFormat.TEXT
        if for_eyes:
            found.add_hook(StopNotice(log_level.number))
        if engine is Engine.SPARK:
            from ehkafka.cli.spark_options import run_on_spark  # noqa: PLC0415 - likewise

            run_on_spark(found, app, on_spark)
            return
        with (
            members_shown(found, is_wanted=for_eyes and members is not None),
            progress_shown(found, is_wanted=for_eyes and members is None, to_end=until_caught_up),
        ):
            found.run(**to_end, **in_members, http=served)


cli.command(help=CHECK_HELP)(check)
cli.command("config", help=CONFIG_HELP)(show_config)
cli.command(help=TAIL_HELP)(tail)
cli.command(help=LAG_HELP)(lag)
cli.command(help=OWNERS_HELP)(owners)
cli.command(help=TOP_HELP)(top)
