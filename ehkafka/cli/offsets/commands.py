"""`ehkafka offsets …`: options and help texts, and nothing of what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import reported
from ehkafka.cli.option_groups import OfGroup, Partition, Yes, grouped
from ehkafka.cli.options import ClientId, Credential, Topic

SHOW_HELP = """Show where a group stands in each partition of a topic.

Joins no group and moves nothing.

\b
Examples:
  ehkafka offsets show readings --app shop.readings:app
  ehkafka offsets show readings --group shop --endpoint localhost:9092 --json

"""
RESET_HELP = """Move a group to a time, an offset, or an end of the log.

Without --yes it only says what it would do. Stop the group's consumers first: the broker refuses to move a
group that has members, and ehkafka watches for 7 to 65 s (--watch-for) whether somebody commits. A position
outside of the log is refused; --clamp takes the nearest end instead. The result is read back and shown.

\b
Examples:
  ehkafka offsets reset readings --group shop --to 2026-01-31T12:00:00Z    a preview
  ehkafka offsets reset readings --group shop --to -10m --yes              10 minutes back
  ehkafka offsets reset readings --group shop --to earliest --partition 3 --yes
  ehkafka offsets reset readings --group shop --to 0=1200 --to 1=latest --yes

"""
SKIP_HELP = """Skip a record that a group cannot get past, such as one whose handler never returns.

The group's commit then says that the record is finished, next to what was finished above it before. Where
the commit waits for this record, its position moves on over all that is finished behind it. Of a batch that
cannot be read, name its first offset: the next one that can be read is found. Without --yes it only says what
it would do. Stop the group's consumers first, as for a reset.

\b
Examples:
  ehkafka offsets skip readings/2@1207 --group shop             a preview
  ehkafka offsets skip readings/2@1207 --group shop --yes
  ehkafka offsets skip readings/2@1207-1219 --group shop --yes  these 13

"""
IMPORT_HELP = """Move a group to where another client's checkpoints stand: sequence number + 1.

Reads those of the current Azure SDKs (.NET, Python, JavaScript, Java, Go), of EventProcessorHost (.NET and
Python 1.x), of Azure Functions, of the Go SDK before 1.0, of Dapr, and ehkafka's own mirror. Without --yes it
only says what it would do. Stop the consumers of the other client and of the group first.

\b
Examples:
  ehkafka offsets import readings --group shop --from checkpoints                 a container; a preview
  ehkafka offsets import readings --group shop --from checkpoints --yes
  ehkafka offsets import readings --group shop --from https://me.blob.core.windows.net/checkpoints
  ehkafka offsets import readings --group shop --from ./copied --from-group '$Default'

\b
Environment:
  EHKAFKA_MIRROR_CONNECTION_STRING or EHKAFKA_MIRROR_CONNECTION_STRING_FILE, of the storage account, when
  --from is a container's name. For a container's URL, ehkafka signs in with Entra ID: see --credential.

"""
EXPORT_HELP = """Write a group's offsets as checkpoints of another client.

Without --yes it only says what it would do. Kafka does not know the SDK's own offset, so the checkpoints have
none. .NET's current SDK and Functions extension can read them (KEDA only those of the sdk format); the SDKs
of Python, JavaScript, Java and Go cannot.

\b
Examples:
  ehkafka offsets export readings --group shop --to checkpoints                    a container; a preview
  ehkafka offsets export readings --group shop --to ./copied --format eph --yes    files in a folder

\b
Environment:
  EHKAFKA_MIRROR_CONNECTION_STRING or EHKAFKA_MIRROR_CONNECTION_STRING_FILE, of the storage account, when
  --to is a container's name

"""
DIFF_HELP = """Compare a group's offsets with its mirror and with another client's checkpoints.

\b
Examples:
  ehkafka offsets diff readings --group shop --from checkpoints
  ehkafka offsets diff readings --group shop --from checkpoints --json

"""

offsets = CommandLine(help="Show, move, import, export and compare a group's offsets.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Where another client's checkpoints lie, and which are meant."""

    source: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="A container's name or URL, a folder, or a list.")
    ]
    credential: Credential = None
    client_id: ClientId = None
    from_namespace: Annotated[
        str | None,
        typer.Option("--from-namespace", metavar="NAME", help="The namespace of the checkpoints."),
    ] = None
    from_hub: Annotated[
        str | None, typer.Option("--from-hub", metavar="NAME", help="Their event hub. Default: the topic.")
    ] = None
    from_group: Annotated[
        str | None,
        typer.Option("--from-group", metavar="NAME", help="Their consumer group, such as $Default."),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="sdk, eph, functions, eph-python, go, dapr or ehkafka. Default: any.",
        ),
    ] = None
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="What the blobs' names begin with.")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """Whether a plan is carried out, and how long the group is watched before."""

    yes: Yes = False
    watch_s: Annotated[
        float | None,
        typer.Option(
            "--watch-for",
            min=0.0,
            max=600.0,
            help="Seconds to watch that nobody commits. Default: 7 where the broker says that nobody is in"
            " the group; else, and on Event Hubs, 65: longer than any known client takes.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving(Applying):
    """What may be moved, and whether it is."""

    partition: Partition = None
    clamp: Annotated[
        bool, typer.Option("--clamp", help="Take the nearest end of the log for a position outside of it.")
    ] = False


@offsets.command("show", help=SHOW_HELP)
@grouped
def show(topic: Topic, *, of: OfGroup) -> None:
    """Show where a group stands."""
    from ehkafka.cli.offsets import offsets as work  # noqa: PLC0415 - `run` needs none of it

    with reported(debug=of.debug):
        work.show(work.group_offsets(topic, of), as_json=of.as_json)


@offsets.command("reset", help=RESET_HELP)
@grouped
def reset(
    topic: Topic,
    *,
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            metavar="PLACE",
            help="earliest, latest, an offset, -N records, -10m, or a moment; N=PLACE for one partition.",
        ),
    ],
    moving: Moving,
    of: OfGroup,
) -> None:
    """Move a group to a time, an offset, or an end of the log."""
    from ehkafka.cli.offsets import offsets as work  # noqa: PLC0415 - `run` needs none of it

    with reported(debug=of.debug):
        work.reset(work.group_offsets(topic, of), to, moving, as_json=of.as_json)


@offsets.command("skip", help=SKIP_HELP)
@grouped
def skip(
    place: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="The record, or all with @FROM-TO.")
    ],
    *,
    applying: Applying,
    of: OfGroup,
) -> None:
    """Skip a record that a group cannot get past."""
    from ehkafka.cli.offsets import offsets as work  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.offsets import skip as skipping  # noqa: PLC0415

    with reported(debug=of.debug):
        asked = skipping.parse_skip(place)
        group = work.group_offsets(asked.partition.topic, of)
        skipping.skip(group, asked, applying, as_json=of.as_json)


@offsets.command("import", help=IMPORT_HELP)
@grouped
def import_checkpoints(topic: Topic, *, checkpoints: Checkpoints, moving: Moving, of: OfGroup) -> None:
    """Move a group to where another client's checkpoints stand."""
    from ehkafka.cli.offsets import offsets as work  # noqa: PLC0415 - `run` needs none of it

    with reported(debug=of.debug):
        store, wanted = work.wanted_checkpoints(topic, checkpoints)
        work.import_checkpoints(work.group_offsets(topic, of), store, wanted, moving, as_json=of.as_json)


@offsets.command("export", help=EXPORT_HELP)
@grouped
def export_checkpoints(
    topic: Topic,
    *,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help="A container's name or URL, or a folder.")],
    form: Annotated[str, typer.Option("--format", metavar="NAME", help="sdk, eph or functions.")] = "sdk",
    credential: Credential = None,
    client_id: ClientId = None,
    to_namespace: Annotated[
        str | None,
        typer.Option(
            "--to-namespace",
            metavar="HOST",
            help="Default: the mirror's, else the endpoint's host.",
        ),
    ] = None,
    to_group: Annotated[
        str, typer.Option("--to-group", metavar="NAME", help="The hub's consumer group.")
    ] = "$Default",
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="What stands before the group, with eph.")
    ] = "",
    partition: Partition = None,
    yes: Yes = False,
    of: OfGroup,
) -> None:
    """Write a group's offsets as checkpoints of another client."""
    from ehkafka.cli.offsets import offsets as work  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.offsets.source import open_source  # noqa: PLC0415

    with reported(debug=of.debug):
        there = work.group_offsets(topic, of)
        place = work.export_place(there, form, to_namespace, to_group, prefix)
        store = open_source(to, credential=credential, client_id=client_id, new_folder=True)
        work.export_checkpoints(there, store, place, partition or (), yes=yes, as_json=of.as_json)


@offsets.command("diff", help=DIFF_HELP)
@grouped
def diff(topic: Topic, *, checkpoints: Checkpoints, of: OfGroup) -> None:
    """Compare a group's offsets with its mirror and with another client's checkpoints."""
    from ehkafka.cli.offsets import offsets as work  # noqa: PLC0415 - `run` needs none of it

    with reported(debug=of.debug):
        store, wanted = work.wanted_checkpoints(topic, checkpoints)
        work.diff(work.group_offsets(topic, of), store, wanted, as_json=of.as_json)
