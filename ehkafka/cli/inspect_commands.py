"""`ehkafka check`, `config` and `tail`: options and help texts, and nothing of what they do."""

from __future__ import annotations

from typing import Annotated

import typer

from ehkafka.cli.exits import reported
from ehkafka.cli.options import (
    PARTITION_MAX,
    App,
    Assignments,
    ClientId,
    Config,
    Credential,
    Debug,
    Endpoint,
    Mirror,
    Timeout,
    topic_names,
)

CHECK_HELP = """Check the way to a broker step by step: name, port, TLS, credential, topic, group, offsets.

Each step that fails says why and what to do. It changes nothing of yours: it joins no group, commits only in
its own group ehkafka-check, and writes only its own blob ehkafka/check into a mirror.

\b
Examples:
  ehkafka check shop.orders:app                  what that app would use
  ehkafka check --endpoint localhost:9092 --topic orders --group shop
  ehkafka check --topic orders                   the endpoint that the environment names
  ehkafka check --topic orders --mirror checkpoints    and the container of the mirror
  ehkafka check shop.orders --json               for programs

\b
Environment:
  EHKAFKA_CONNECTION_STRING, EHKAFKA_CONNECTION_STRING_FILE, EHKAFKA_NAMESPACE or EHKAFKA_BOOTSTRAP,
  when neither an app nor --endpoint is given
  EHKAFKA_MIRROR_…   names the mirror when neither an app nor --mirror is given; with
  EHKAFKA_MIRROR_CONNECTION_STRING or EHKAFKA_MIRROR_CONNECTION_STRING_FILE --mirror takes a container's name

"""
CONFIG_HELP = """Show every setting in effect: its value, where it came from, and what it decides.

The first of these that has a value decides: a flag (--set), a variable (EHKAFKA_DRAIN_S), the file
(ehkafka.toml), the app's code, ehkafka's default. An endpoint in the app's code is never replaced; an app
without one takes it from variables or file. Secrets are shown as ***.

\b
Examples:
  ehkafka config shop.orders:app                 what that app would run with
  ehkafka config                                 what file and environment say alone
  ehkafka config shop.orders --set drain_s=20
  ehkafka config shop.orders --json              for programs

\b
A file:
  [app]                                          # any setting of ehkafka.settings.Settings
  drain_s = 20
  max_age = "7d"
  [endpoint]                                     # connection_string_file, namespace or bootstrap
  connection_string_file = "/mnt/secrets/hub"
  [endpoint.properties]                          # of librdkafka, for every client
  "ssl.ca.location" = "/etc/ssl/own.pem"
  [consumer]                                     # of librdkafka, for the app's consumer
  "fetch.max.bytes" = 10000000
  [producer]                                     # of librdkafka, for outputs, dead letters, app.producer
  "linger.ms" = 20

A file that --config or EHKAFKA_CONFIG names may be a pipe. One that just lies in the folder cannot decide
where a key goes, how a certificate is checked, or what is loaded and read: name it if you trust it.

\b
The same as variables:
  EHKAFKA_DRAIN_S=20 EHKAFKA_MAX_AGE=7d EHKAFKA_CONNECTION_STRING_FILE=/mnt/secrets/hub
  EHKAFKA_PROPERTY_SSL_CA_LOCATION=/etc/ssl/own.pem EHKAFKA_CONSUMER_FETCH_MAX_BYTES=10000000

"""
TAIL_HELP = """Print the records of a topic as they come.

Joins no group and commits nothing. Ctrl-C ends it. What is not printable in a record is escaped.

\b
Examples:
  ehkafka tail orders --app shop.orders:app      with that app's endpoint
  ehkafka tail orders --endpoint localhost:9092 --from -10m
  ehkafka tail orders --from -5 --count 20       the last 5 of each partition; ends after 20
  ehkafka tail orders --json | jq .value         one JSON object a line

"""


def check(
    app: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="The ehkafka.App to check for.")
    ] = None,
    *,
    endpoint: Endpoint = None,
    group: Annotated[str | None, typer.Option(help="The consumer group.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic; may be given several times.", callback=topic_names)
    ] = None,
    mirror: Mirror = None,
    credential: Credential = None,
    client_id: ClientId = None,
    timeout_s: Timeout = 10.0,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Check the way to a broker step by step."""
    from ehkafka.cli.check import check as run_and_show  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.check_target import chosen_target, with_mirror  # noqa: PLC0415

    with reported(debug=debug):
        target = chosen_target(app, endpoint, group=group, topics=topic or (), config=config)
        if mirror is not None or app is None:
            target = with_mirror(target, mirror, credential=credential, client_id=client_id)
        code = run_and_show(target, timeout_s=timeout_s, as_json=as_json)
    raise typer.Exit(code)


def show_config(
    app: Annotated[str | None, typer.Argument(metavar="MODULE:APP", help="The ehkafka.App to ask.")] = None,
    *,
    config: Config = None,
    assignments: Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the values as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Show every setting in effect, where it came from and what it decides."""
    from ehkafka.cli.config import effective  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.config_view import show  # noqa: PLC0415
    from ehkafka.cli.settings.given import Given  # noqa: PLC0415

    with reported(debug=debug):
        show(effective(app, Given.read(config, assignments or ())), as_json=as_json)


def tail(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic, or event hub, to read.", callback=topic_names)
    ],
    *,
    begin: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="earliest, latest, an offset, -N records, -10m, or a moment."
        ),
    ] = "latest",
    partition: Annotated[
        list[int] | None,
        typer.Option(min=0, max=PARTITION_MAX, help="Only this partition; may be given several times."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many records.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records of this key or partition key.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, nothing cut.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long values.")] = False,
    app: App = None,
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
