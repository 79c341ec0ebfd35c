"""`ehkafka lag` and `ehkafka owners`: options and help texts, and nothing of what they do."""

from __future__ import annotations

from typing import Annotated

import typer

from ehkafka.cli.exits import reported
from ehkafka.cli.option_groups import OfGroup, grouped
from ehkafka.cli.options import ClientId, Credential, Mirror, Topic

LAG_HELP = """Show how far a group is behind, what of that is not done, and what each commit waits for.

LAG is what lies above the commit. UNFINISHED leaves out what ehkafka's commit says to be done above it; a
plain client's commit does not say (–), and the sum is then "at least". BLOCKED BY is the record at the
commit: offset, key and age.

It joins no group and works for one without members, too. A partition without a commit counts with its whole
log.

\b
Examples:
  ehkafka lag readings --app shop.readings:app
  ehkafka lag readings --group shop --endpoint localhost:9092 --watch
  ehkafka lag readings --group shop --fail-over 10000     exit code 6 when it is more
  ehkafka lag readings --group shop --watch --json        a line of JSON each time

"""
OWNERS_HELP = """Show who owns which partition, when they last reported it, and how far each is behind.

Owners report beside the mirror, even for idle partitions. Without a mirror, the broker's list of members is
shown.

\b
Examples:
  ehkafka owners readings --group shop --mirror checkpoints
  ehkafka owners readings --app shop.readings:app --json

\b
Environment:
  EHKAFKA_MIRROR_…   names the mirror when neither --mirror nor the app does

"""


@grouped
def lag(
    topic: Topic,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")] = False,
    every_s: Annotated[
        float,
        typer.Option("--every", min=0.2, max=3600.0, help="Seconds between two repetitions of --watch."),
    ] = 2.0,
    fail_over: Annotated[
        int | None,
        typer.Option(
            "--fail-over",
            min=0,
            metavar="N",
            help="End with exit code 6 when the total lag is more, or a commit is outside of its log.",
        ),
    ] = None,
    of: OfGroup,
) -> None:
    """Show how far a group is behind."""
    from ehkafka.cli import lag as work  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.offsets.offsets import group_offsets  # noqa: PLC0415

    with reported(debug=of.debug):
        there = group_offsets(topic, of)
        if watch:
            code = work.watch_lag(there, fail_over=fail_over, as_json=of.as_json, every_s=every_s)
        else:
            code = work.lag(there, fail_over=fail_over, as_json=of.as_json)
    raise typer.Exit(code)


@grouped
def owners(
    topic: Topic,
    *,
    mirror: Mirror = None,
    credential: Credential = None,
    client_id: ClientId = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="As the mirror names it. Default: the endpoint's host name."),
    ] = None,
    of: OfGroup,
) -> None:
    """Show who has which partition."""
    from ehkafka.cli import owners as work  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.cli.offsets.offsets import group_offsets  # noqa: PLC0415
    from ehkafka.offsets.source import mirror_of_target, open_source  # noqa: PLC0415

    with reported(debug=of.debug):
        there = group_offsets(topic, of)
        store, named = mirror_of_target(there.target)
        if mirror is not None:
            store = open_source(mirror, credential=credential, client_id=client_id)
        work.owners(there, store, namespace or named, as_json=of.as_json)
