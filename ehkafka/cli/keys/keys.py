"""Lists keys and acts on them, at all apps that were named, and writes what came of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from ehkafka.checks import printable
from ehkafka.cli.columns import columns
from ehkafka.cli.door import Door
from ehkafka.errors import ActionRefusedError, ConfigurationError, EhkafkaError, EndpointError
from ehkafka.http import Http
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.cli.keys.commands import OfApps

DEFAULT_URL = "http://127.0.0.1:8080"
HEADERS = ("KEY AT ITS HEAD", "KEY", "STATUS", "AGE", "ATTEMPTS", "RECORDS", "HANDLER", "LAST ERROR")
SHOWN_CHARACTERS_MAX = 60


def doors_of(of: OfApps) -> list[Door]:
    """Return the apps that were named. Raises `ConfigurationError`."""
    token = Http(token_file=of.token_file).read_token()
    return [Door(url, token, of.timeout_s) for url in of.url or [DEFAULT_URL]]


def list_keys(doors: Sequence[Door], *, blocking: bool, as_json: bool) -> None:
    """Print the keys. Raises `EndpointError` where an app does not answer."""
    found: list[dict[str, Any]] = []
    for door in doors:
        found += [{"url": door.url, **one} for one in door.waiting() if one["is_blocking"] or not blocking]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    if not found:
        typer.echo("No key waits by itself, and no record holds up a commit.")
        return
    rows = [
        (
            f"{one['name']}{' *' if one['is_blocking'] else ''}",
            _short(one["key"]),
            one["status"],
            seconds(one["age_s"]),
            one["attempts"],
            one["records"],
            one["handler"],
            _short(one["last_error"]),
        )
        for one in found
    ]
    typer.echo(columns(HEADERS, rows))
    typer.echo("* holds the commit of its partition")


def act(doors: Sequence[Door], asked: dict[str, Any], *, yes: bool, as_json: bool) -> None:
    """Say what an action does, and with `yes` do it. Raises `ActionRefusedError` and `EndpointError`."""
    door, preview = _found(doors, asked)
    result = preview
    if yes:
        # The head that was seen: another one by now is left alone.
        name = preview["name"]
        seen = {"name": name} if asked["target"] == "key" and "@" in name and asked["do"] != "resume" else {}
        result = door.act({**asked, **seen})
    if as_json:
        typer.echo(json.dumps({"url": door.url, **result}, indent=2))
        return
    text = printable(result["text"])
    typer.echo(text if yes else f"Preview: {text}\nNothing was done; --yes does it.")


def _found(doors: Sequence[Door], asked: dict[str, Any]) -> tuple[Door, dict[str, Any]]:
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
        raise ActionRefusedError("ambiguous", f"Several apps have it; give one --url: {names}.")
    # One that has the key and would not do it says more than those that do not have it.
    elsewhere = {"unknown", "elsewhere"}
    refused.sort(key=lambda one: one.reason in elsewhere)
    if not refused:
        raise unreachable[0]
    if refused[0].reason not in elsewhere or not unreachable:
        raise refused[0]
    # Who did not answer may be the one that has it.
    raise ActionRefusedError(refused[0].reason, f"{refused[0]} {unreachable[0]}", refused[0].names)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 1]}…"
