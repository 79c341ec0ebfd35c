"""`ehkafka keys …`: options and help texts, and nothing of what they do. `commands` joins it to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import reported
from ehkafka.cli.option_groups import Yes, grouped
from ehkafka.cli.options import Debug, Json, Timeout, TokenFile

LIST_HELP = """List the keys that hold up a commit, the oldest first, then others that wait by themselves.

Asks running apps that have --http.

\b
Examples:
  ehkafka keys list
  ehkafka keys list --url http://10.1.2.3:8080 --url http://10.1.2.4:8080 --blocking
  ehkafka keys list --json

"""
ACT_HELP = """\b
NAME is the record at the key's head as `keys list` prints it, TOPIC/PARTITION@OFFSET, or the key's own text;
other bytes are base64:…, other values JSON. Without --yes it only says what would be done. It needs the app's
token: EHKAFKA_HTTP_TOKEN, or --token-file.

\b
Examples:
"""

keys = CommandLine(help="Show which keys hold up a commit, and free them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The key.")]
All = Annotated[bool, typer.Option("--all", help="All records of the key that are in line.")]
ForS = Annotated[
    float | None,
    typer.Option(
        "--for-s",
        metavar="SECONDS",
        min=0.1,
        max=31_622_400.0,
        help="The pause ends by itself after so long.",
    ),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="The partition's next assignment in that process takes it over.")
]
OfPartition = Annotated[
    bool,
    typer.Option("--partition", help="NAME is a partition, TOPIC/PARTITION: receive nothing more of it."),
]

Urls = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL", help="A running app; may be given several times. Default: http://127.0.0.1:8080."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfApps:
    """Which running apps are asked, and how the command tells what it found."""

    url: Urls = None
    token_file: TokenFile = None
    timeout_s: Timeout = 10.0
    as_json: Json = False
    debug: Debug = False


@keys.command("list", help=LIST_HELP)
@grouped
def list_keys(
    *,
    blocking: Annotated[bool, typer.Option("--blocking", help="Only those that hold a commit.")] = False,
    of: OfApps,
) -> None:
    """List the keys that hold up a commit."""
    from ehkafka.cli.keys import keys as work  # noqa: PLC0415 - other commands need none of it

    with reported(debug=of.debug):
        work.list_keys(work.doors_of(of), blocking=blocking, as_json=of.as_json)


@keys.command(
    help="Start nothing more of a key, or receive nothing more of a partition.\n\n"
    + ACT_HELP
    + "  ehkafka keys pause home-7 --for-s 600 --yes\n  ehkafka keys pause readings/3 --partition --yes\n\n"
)
@grouped
def pause(
    name: Name,
    *,
    for_s: ForS = None,
    keep: Keep = False,
    partition: OfPartition = False,
    yes: Yes = False,
    of: OfApps,
) -> None:
    """Start nothing more of a key."""
    more = {"keep": keep} | ({} if for_s is None else {"for_s": for_s})
    _act("pause", name, of, yes=yes, partition=partition, **more)


@keys.command(
    help="Let a paused key, or partition, go on.\n\n" + ACT_HELP + "  ehkafka keys resume home-7 --yes\n\n"
)
@grouped
def resume(name: Name, *, partition: OfPartition = False, yes: Yes = False, of: OfApps) -> None:
    """Let a paused key go on."""
    _act("resume", name, of, yes=yes, partition=partition)


@keys.command(
    help="Call the handler again now for a head that is held, or waits for its next attempt.\n\n"
    + ACT_HELP
    + "  ehkafka keys retry readings/3@1207 --yes\n\n"
)
@grouped
def retry(name: Name, *, yes: Yes = False, of: OfApps) -> None:
    """Call the handler again now."""
    _act("retry", name, of, yes=yes)


@keys.command(
    help="Give a head that does not run the outcome skipped: the commit may pass it, its key goes on.\n\n"
    "Where the key waits for a call of an earlier assignment, that wait ends: its next records may start\n"
    "though that call still runs.\n\n"
    + ACT_HELP
    + "  ehkafka keys skip readings/3@1207           what would be done\n"
    "  ehkafka keys skip readings/3@1207 --yes\n  ehkafka keys skip home-7 --all --yes\n\n"
)
@grouped
def skip(name: Name, *, all_of_it: All = False, yes: Yes = False, of: OfApps) -> None:
    """Skip a head."""
    _act("skip", name, of, yes=yes, all=all_of_it)


@keys.command(
    "dead-letter",
    help="Send a head that does not run to the handler's dead letters; its key goes on.\n\n"
    + ACT_HELP
    + "  ehkafka keys dead-letter readings/3@1207 --yes\n\n",
)
@grouped
def dead_letter(name: Name, *, all_of_it: All = False, yes: Yes = False, of: OfApps) -> None:
    """Send a head to the dead letters."""
    _act("dead_letter", name, of, yes=yes, all=all_of_it)


def _act(do: str, name: str, of: OfApps, *, yes: bool, partition: bool = False, **more: Any) -> None:
    from ehkafka.cli.keys import keys as work  # noqa: PLC0415 - other commands need none of it

    with reported(debug=of.debug):
        asked = {"do": do, "target": "partition" if partition else "key", "name": name, **more}
        work.act(work.doors_of(of), asked, yes=yes, as_json=of.as_json)
