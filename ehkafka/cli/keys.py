"""`ehkafka keys`: which keys hold a commit, and a hand on each, by the HTTP side of running apps.

On the main thread. Asks all apps that were named; an action goes to the one that has the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.door import USUAL_URL, Door
from ehkafka.cli.options import Json, Timeout, TokenFile, Yes
from ehkafka.cli.output import columns, cut, put_json
from ehkafka.errors import ActionRefusedError, ConfigurationError, EhkafkaError, EndpointError
from ehkafka.http import Http
from ehkafka.wording import seconds
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HEADERS = ("KEY AT ITS HEAD", "KEY", "STATUS", "AGE", "ATTEMPTS", "RECORDS", "HANDLER", "LAST ERROR")
SHOWN_CHARACTERS_MAX = 60
ACTION = """{text}

\b
NAME is TOPIC/PARTITION@OFFSET, the first unfinished record of the key as `keys list` prints it, or the text
of the key (base64:… for other bytes, JSON for other values). Without --yes the command only shows a preview.
The app requires its token: set EHKAFKA_HTTP_TOKEN, or give --token-file.

\b
Examples:
  {examples}

"""

cli = CommandLine(help="List keys that hold up a commit; pause, resume, retry, skip or dead-letter them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a key.")]
All = Annotated[
    bool, typer.Option("--all", help="Apply it to all queued records of the key, not only to the first.")
]
ForS = Annotated[
    float | None,
    typer.Option(
        "--for-s",
        metavar="SECONDS",
        min=0.1,
        max=31_622_400.0,
        help="End the pause after this number of seconds. Default: never.",
    ),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep the pause if this process gets the partition again.")
]
OfPartition = Annotated[
    bool,
    typer.Option("--partition", help="NAME is a partition, TOPIC/PARTITION, not a key."),
]

Urls = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL",
        help="The address of a running app; may be given several times. Default: http://127.0.0.1:8080.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfApps:
    """Which running apps are asked, and how the command tells what it found."""

    url: Urls = None
    token_file: TokenFile = None
    timeout_s: Timeout = 10.0
    as_json: Json = False

    def doors(self) -> list[Door]:
        """Return the apps that were named. Raises `ConfigurationError`."""
        token = Http(token_file=self.token_file).read_token()
        return [Door(url, token, self.timeout_s) for url in self.url or [USUAL_URL]]


@cli.command("list")
def list_keys(
    *,
    blocking: Annotated[
        bool, typer.Option("--blocking", help="List only keys that hold up a commit.")
    ] = False,
    of: OfApps,
) -> None:
    r"""List keys that hold up a commit, the oldest first, then other waiting keys.

    The command asks running apps that were started with --http.

    \b
    Examples:
      ehkafka keys list
      ehkafka keys list --url http://10.1.2.3:8080 --url http://10.1.2.4:8080 --blocking
      ehkafka keys list --json

    """
    found: list[dict[str, Any]] = []
    for door in of.doors():
        found += [{"url": door.url, **one} for one in door.waiting() if one["is_blocking"] or not blocking]
    if of.as_json:
        put_json(found)
        return
    if not found:
        typer.echo("No key waits for an action, and no record holds up a commit.")
        return
    typer.echo(columns(HEADERS, [_row(one) for one in found]))
    typer.echo("* holds up the commit of its partition")


def _row(found: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        f"{found['name']}{' *' if found['is_blocking'] else ''}",
        cut(found["key"], SHOWN_CHARACTERS_MAX),
        found["status"],
        seconds(found["age_s"]),
        found["attempts"],
        found["records"],
        found["handler"],
        cut(found["last_error"], SHOWN_CHARACTERS_MAX),
    )


def action(name: str, text: str, *examples: str) -> Callable[[Any], Any]:
    """Declare an action: a command with the help that all of them have."""
    lines = "\n  ".join(f"ehkafka keys {name} {example}" for example in examples)
    return cli.command(name, help=ACTION.format(text=text, examples=lines))


@action(
    "pause",
    "Pause a key or a partition: no further record of the key starts, or none of the partition is received.",
    "home-7 --for-s 600 --yes",
    "readings/3 --partition --yes",
)
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


@action("resume", "Resume a paused key or partition.", "home-7 --yes")
def resume(name: Name, *, partition: OfPartition = False, yes: Yes = False, of: OfApps) -> None:
    """Let a paused key go on."""
    _act("resume", name, of, yes=yes, partition=partition)


@action(
    "retry",
    "Call the handler now for the first record of a key, if it is on hold or waits for its next attempt.",
    "readings/3@1207 --yes",
)
def retry(name: Name, *, yes: Yes = False, of: OfApps) -> None:
    """Call the handler again now."""
    _act("retry", name, of, yes=yes)


@action(
    "skip",
    "Skip the first record of a key: commits no longer wait for it, and the key continues.\n\n"
    "If the key waits for a call of an earlier assignment, that wait ends: its next records may start\n"
    "while that call still runs.",
    "readings/3@1207           a preview",
    "readings/3@1207 --yes",
    "home-7 --all --yes",
)
def skip(name: Name, *, all_of_it: All = False, yes: Yes = False, of: OfApps) -> None:
    """Skip a head."""
    _act("skip", name, of, yes=yes, all=all_of_it)


@action(
    "dead-letter",
    "Send the first record of a key to the handler's dead-letter topic; the key continues.",
    "readings/3@1207 --yes",
)
def dead_letter(name: Name, *, all_of_it: All = False, yes: Yes = False, of: OfApps) -> None:
    """Send a head to the dead letters."""
    _act("dead_letter", name, of, yes=yes, all=all_of_it)


def _act(do: str, name: str, of: OfApps, *, yes: bool, partition: bool = False, **more: object) -> None:
    """Say what an action does, and with `yes` do it. Raises `ActionRefusedError` and `EndpointError`."""
    asked = {"do": do, "target": "partition" if partition else "key", "name": name, **more}
    door, result = _found(of.doors(), asked)
    if yes:
        # The head that was seen: another one by now is left alone.
        name = result["name"]
        seen = {"name": name} if not partition and "@" in name and do != "resume" else {}
        result = door.act({**asked, **seen})
    if of.as_json:
        put_json({"url": door.url, **result})
        return
    text = printable(result["text"])
    typer.echo(text if yes else f"Preview: {text}\nNothing was done. Add --yes to do it.")


def _found(doors: list[Door], asked: dict[str, Any]) -> tuple[Door, dict[str, Any]]:
    """Return the one app that has the key, and what it would do."""
    refused: list[ActionRefusedError] = []
    unreachable: list[EhkafkaError] = []
    knows: list[tuple[Door, dict[str, Any]]] = []
    for door in doors:
        try:
            knows.append((door, door.act({**asked, "preview": True})))
        except ActionRefusedError as error:
            refused.append(error)
        except (EndpointError, ConfigurationError) as error:
            unreachable.append(error)
    if len(knows) == 1:
        return knows[0]
    if knows:
        names = ", ".join(f"{one['name']} at {door.url}" for door, one in knows)
        raise ActionRefusedError(
            "ambiguous",
            f"Several apps have this key or partition: repeat the command with the --url of "
            f"one of these apps: {names}.",
        )
    # One that has the key and would not do it says more than those that do not have it.
    elsewhere = {"unknown", "elsewhere"}
    refused.sort(key=lambda one: one.reason in elsewhere)
    if not refused:
        raise unreachable[0]
    if refused[0].reason not in elsewhere or not unreachable:
        raise refused[0]
    # Who did not answer may be the one that has it.
    raise ActionRefusedError(refused[0].reason, f"{refused[0]} {unreachable[0]}", refused[0].names)
