"""Options that several commands share: one name, one meaning, one help text. Read by typer alone.

A group is a dataclass whose fields are options: a command that has a parameter of it takes them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

_Names = TypeVar("_Names", str, list[str], None)

# Kafka takes 249 characters, Event Hubs 256.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,256}")
PARTITION_MAX = 2**31 - 1
"""The largest number that Kafka's protocol has for a partition."""


def topic_names(given: _Names) -> _Names:
    """Return what was given if it can be topics. Raises `typer.BadParameter`."""
    names: list[str] = [given] if isinstance(given, str) else given or []
    for name in names:
        if not _TOPIC.fullmatch(name):
            empty = "" if name.strip() else "the text is empty: "
            raise typer.BadParameter(
                f"{empty}a topic's name has 1 to 256 characters: English letters, digits, dots, dashes and "
                f"underscores"
            )
    return given


App = Annotated[
    str | None, typer.Option("--app", metavar="MODULE:APP", help="Use the endpoint of this ehkafka.App.")
]
AppOfGroup = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", help="Use the endpoint and group of this ehkafka.App."),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting, such as drain_s=20; may be given several times."
    ),
]
ClientId = Annotated[
    str | None,
    typer.Option("--client-id", metavar="ID", help="The client ID of a user-assigned managed identity."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file of settings. Default: the file that EHKAFKA_CONFIG names.",
    ),
]
Credential = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The Entra ID credential for a container's URL: default, managed_identity, workload_identity, "
        "service_principal or cli.",
    ),
]
Endpoint = Annotated[
    str | None, typer.Option("--endpoint", metavar="HOST:PORT", help="The bootstrap address of a broker.")
]
Group = Annotated[
    str | None,
    typer.Option(help="The consumer group. Default: the group of the app, or of the settings file."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Mirror = Annotated[
    str | None,
    typer.Option(
        "--mirror", metavar="PLACE", help="Where the mirror is: a container's name or URL, or a folder."
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, max=3600.0, help="Seconds for each step, at most.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file that contains the token. Default: the token in EHKAFKA_HTTP_TOKEN, or in the file "
        "that EHKAFKA_HTTP_TOKEN_FILE names.",
    ),
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, or event hub.", callback=topic_names)]
OneTopic = Annotated[
    str | None, typer.Option("--topic", help="Only this topic, or event hub.", callback=topic_names)
]
Partition = Annotated[
    list[int] | None,
    typer.Option(min=0, max=PARTITION_MAX, help="Only this partition; may be given several times."),
]
Yes = Annotated[
    bool, typer.Option("--yes/--dry-run", help="With --yes make the change; without it only show a preview.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfEndpoint:
    """Which broker is meant, and how the command tells what it found."""

    as_json: Json = False
    app: App = None
    endpoint: Endpoint = None
    timeout_s: Timeout = 10.0
    config: Config = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroup:
    """Which group on which broker is meant, and how the command tells what it found."""

    group: Group = None
    app: AppOfGroup = None
    endpoint: Endpoint = None
    timeout_s: Timeout = 10.0
    config: Config = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OfMirror:
    """Where the mirror lies, and as whom a container's URL is entered."""

    mirror: Mirror = None
    credential: Credential = None
    client_id: ClientId = None


def given_options(group: Any, but: Collection[str] = ()) -> list[str]:
    """Return the options of a group that were given, as they are typed."""
    hints = get_type_hints(type(group), include_extras=True)
    asked = [one for one in fields(group) if one.name not in but and getattr(group, one.name) != one.default]
    # In an annotation an option's first name stands where its default would.
    return [str(hints[one.name].__metadata__[0].default).partition("/")[0] for one in asked]


def only_with(needed: str, group: object, but: Collection[str] = ()) -> None:
    """Refuse the options of a group that were given without the one that they need."""
    if named := given_options(group, but):
        raise ConfigurationError(
            f"{', '.join(named)} needs {needed}: add {needed}, or leave out {', '.join(named)}."
        )
