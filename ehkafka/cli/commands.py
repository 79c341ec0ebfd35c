"""What a user can type: options and help texts with runnable examples, and nothing of what they do.

Only this file knows typer's decorators. Called by `__main__`, on the main thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ehkafka
from ehkafka.cli.app_path import load_app
from ehkafka.cli.dlq_commands import dlq
from ehkafka.cli.exits import CODES, reported
from ehkafka.cli.log_setup import LogLevel, log_to_stderr
from ehkafka.cli.offsets_commands import LAG_HELP, OWNERS_HELP, lag, offsets, owners
from ehkafka.cli.settings_given import Given
from ehkafka.cli.stop_notice import StopNotice

# New objects between two looks for cycles. A batch of records alone is more than Python's own 700.
GC_THRESHOLD = 50_000

RUN_HELP = f"""Run an app until a signal stops it or an error ends it.

The first Ctrl-C (or SIGTERM) stops the intake, finishes what was received and commits. The second leaves
at once and names what will be handled again.

\b
Examples:
  ehkafka run shop.orders:app            the name app in the module shop/orders.py
  ehkafka run shop.orders                the same: app is the default name
  ehkafka run examples/quickstart/app.py a file
  ehkafka run shop.orders --log-level debug
  ehkafka run shop.orders --config prod.toml --set drain_s=20

\b
Exit codes:
{CODES}
"""
DEMO_HELP = f"""Watch 100 000 homes being handled in order, with a broker inside this process.

A simulator produces sensor readings to 16 partitions, an app handles them with strict order per home,
and a checker judges every step. It ends with the checker's verdict.

\b
Examples:
  ehkafka demo                           20 seconds, live view
  ehkafka demo --records 500000 --json   the summary as JSON and nothing else
  ehkafka demo --endpoint localhost:9092 another broker; the topic is made if it is missing

\b
Exit codes:
{CODES}
"""

CHECK_HELP = f"""Check the way to a broker step by step: name, port, TLS, credential, topic, group, offsets.

Each step that fails says why and what to do. Nothing of yours is changed: it joins no group, and commits
only in a group of its own, ehkafka-check.

\b
Examples:
  ehkafka check shop.orders:app                  what that app would use
  ehkafka check --endpoint localhost:9092 --topic orders --group shop
  ehkafka check --topic orders                   the endpoint that the environment names
  ehkafka check shop.orders --json               for programs

\b
Environment:
  EHKAFKA_CONNECTION_STRING, EHKAFKA_CONNECTION_STRING_FILE, EHKAFKA_NAMESPACE or EHKAFKA_BOOTSTRAP,
  when neither an app nor --endpoint is given

\b
Exit codes:
{CODES}
"""
CONFIG_HELP = f"""Show every setting in effect: its value, where it came from, and what it decides.

The first of these that has a value decides: a flag (--set), a variable (EHKAFKA_DRAIN_S), the file
(ehkafka.toml), the app's code, ehkafka's default. An app's own endpoint is never replaced; one made
without takes it from variables or file. Secrets are shown as ***.

\b
Examples:
  ehkafka config shop.orders:app                 what that app would run with
  ehkafka config                                 what file and environment say alone
  ehkafka config shop.orders --set drain_s=20
  ehkafka config shop.orders --json              for programs

\b
A file:
  [app]                                          any setting of ehkafka.settings.Settings
  drain_s = 20
  max_age = "7d"
  [endpoint]                                     connection_string_file, namespace or bootstrap
  connection_string_file = "/mnt/secrets/hub"
  [endpoint.properties]                          of librdkafka, for every client
  "ssl.ca.location" = "/etc/ssl/own.pem"
  [consumer]                                     of librdkafka, for the app's consumer
  "fetch.max.bytes" = 10000000

\b
The same as variables:
  EHKAFKA_DRAIN_S=20 EHKAFKA_MAX_AGE=7d EHKAFKA_CONNECTION_STRING_FILE=/mnt/secrets/hub
  EHKAFKA_PROPERTY_SSL_CA_LOCATION=/etc/ssl/own.pem EHKAFKA_CONSUMER_FETCH_MAX_BYTES=10000000

\b
Exit codes:
{CODES}
"""
TAIL_HELP = f"""Print the records of a topic as they come.

Joins no group and commits nothing. Ctrl-C ends it. What is not printable in a record is escaped.

\b
Examples:
  ehkafka tail orders --app shop.orders:app      with that app's endpoint
  ehkafka tail orders --endpoint localhost:9092 --from -10m
  ehkafka tail orders --from -5 --count 20       the last 5 of each partition; ends after 20
  ehkafka tail orders --json | jq .value         one JSON object a line

\b
Exit codes:
{CODES}
"""

cli = typer.Typer(
    help="Consume Kafka-protocol records with strict order per key and commits that are never ahead.",
    no_args_is_help=True,
    add_completion=False,
    # Tracebacks are decided on in `exits`; rich's could show local variables, and secrets with them.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

cli.add_typer(dlq, name="dlq")
cli.add_typer(offsets, name="offsets")

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file of settings. Default: EHKAFKA_CONFIG, else ehkafka.toml if it is there.",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be given several times."),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ehkafka {ehkafka.__version__}")
        raise typer.Exit


@cli.callback()
def ehkafka_command(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Consume Kafka-protocol records with strict order per key and commits that are never ahead."""


@cli.command(help=RUN_HELP)
def run(
    app: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The ehkafka.App to run.")],
    *,
    log_level: Annotated[
        LogLevel, typer.Option(help="From which level on lines are logged, to stderr.")
    ] = LogLevel.INFO,
    config: Config = None,
    assignments: Assignments = None,
    tune_gc: Annotated[
        bool,
        typer.Option(
            "--tune-gc/--no-tune-gc",
            help="Let Python's garbage collector look at new objects only, and less often.",
        ),
    ] = True,
    debug: Debug = False,
) -> None:
    """Run an app until a signal stops it or an error ends it."""
    with reported(debug=debug):
        log_to_stderr(log_level)
        given = Given.read(config, assignments or ())
        found = load_app(app)
        given.apply(found)
        found.add_hook(StopNotice(log_level.number))
        found.run(gc_freeze=tune_gc, gc_threshold=GC_THRESHOLD if tune_gc else None)


@cli.command(help=DEMO_HELP)
def demo(
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0.5, help="How long to produce.", show_default="20")
    ] = None,
    records: Annotated[int | None, typer.Option(min=1, help="How many readings, however long.")] = None,
    endpoint: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="A broker's bootstrap address, or embedded.")
    ] = "embedded",
    topic: Annotated[str, typer.Option(help="The topic to use there.")] = "ehkafka-demo-readings",
    workers: Annotated[int, typer.Option(min=1, max=1000, help="Worker threads of the handler.")] = 16,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, without a live view.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Watch 100 000 homes being handled in order."""
    from ehkafka.cli.demo.plan import DemoPlan  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.demo.session import run_demo  # noqa: PLC0415

    with reported(debug=debug):
        plan = DemoPlan.chosen(
            seconds=seconds, records=records, endpoint=endpoint, topic=topic, workers=workers
        )
        code = run_demo(plan, as_json=as_json)
    raise typer.Exit(code)


Endpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="HOST:PORT", help="A broker's bootstrap address.")
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, max=3600.0, help="Seconds that each step may take.")
]


@cli.command(help=CHECK_HELP)
def check(
    app: Annotated[
        str | None, typer.Argument(metavar="[MODULE:APP]", help="The ehkafka.App to check for.")
    ] = None,
    *,
    endpoint: Endpoint = None,
    group: Annotated[str | None, typer.Option(help="The consumer group.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="A topic; may be given several times.")] = None,
    timeout_s: Timeout = 10.0,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Check the way to a broker step by step."""
    from ehkafka.cli.check import check as run_and_show  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.check_target import chosen_target  # noqa: PLC0415

    with reported(debug=debug):
        target = chosen_target(app, endpoint, group=group, topics=topic or (), config=config)
        code = run_and_show(target, timeout_s=timeout_s, as_json=as_json)
    raise typer.Exit(code)


@cli.command("config", help=CONFIG_HELP)
def show_config(
    app: Annotated[str | None, typer.Argument(metavar="[MODULE:APP]", help="The ehkafka.App to ask.")] = None,
    *,
    config: Config = None,
    assignments: Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the values as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Show every setting in effect, where it came from and what it decides."""
    from ehkafka.cli.config import effective  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.config_view import show  # noqa: PLC0415

    with reported(debug=debug):
        show(effective(app, Given.read(config, assignments or ())), as_json=as_json)


@cli.command(help=TAIL_HELP)
def tail(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, or event hub, to read.")],
    *,
    begin: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="earliest, latest, an offset, -N records, -10m, or a moment."
        ),
    ] = "latest",
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this partition; may be given several times.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many records.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records of this key or partition key.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, nothing cut.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long values.")] = False,
    app: Annotated[
        str | None, typer.Option("--app", metavar="MODULE:APP", help="Use the endpoint of this ehkafka.App.")
    ] = None,
    endpoint: Endpoint = None,
    timeout_s: Timeout = 10.0,
    config: Config = None,
    debug: Debug = False,
) -> None:
    """Print the records of a topic as they come."""
    from ehkafka.checks import TopicReader  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.check_target import chosen_target  # noqa: PLC0415
    from ehkafka.cli.tail import TailView, notice  # noqa: PLC0415
    from ehkafka.cli.tail import tail as print_records  # noqa: PLC0415
    from ehkafka.cli.tail_from import parse_from  # noqa: PLC0415

    with reported(debug=debug):
        reader = TopicReader(
            chosen_target(app, endpoint, topics=[topic], config=config),
            topic,
            begin=parse_from(begin),
            partitions=partition or (),
            timeout_s=timeout_s,
            notice=notice,
        )
        print_records(reader, TailView(count=count, key=key, as_json=as_json, full=full))


cli.command(help=LAG_HELP)(lag)
cli.command(help=OWNERS_HELP)(owners)
