"""Options that several commands take together: declared once, spread into each command's own.

Read by typer when the commands are declared. A group is a dataclass whose fields are options; a command that
is `grouped` takes one as a parameter.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ehkafka.cli.options import (
    PARTITION_MAX,
    App,
    AppOfGroup,
    Config,
    Debug,
    Endpoint,
    Group,
    Json,
    Timeout,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Partition = Annotated[
    list[int] | None,
    typer.Option(min=0, max=PARTITION_MAX, help="Only this partition; may be given several times."),
]
Yes = Annotated[bool, typer.Option("--yes/--dry-run", help="Do it, or only say what would be done.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfEndpoint:
    """Which broker is meant, and how the command tells what it found."""

    as_json: Json = False
    app: App = None
    endpoint: Endpoint = None
    timeout_s: Timeout = 10.0
    config: Config = None
    debug: Debug = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroup:
    """Which group on which broker is meant, and how the command tells what it found."""

    group: Group = None
    app: AppOfGroup = None
    endpoint: Endpoint = None
    timeout_s: Timeout = 10.0
    config: Config = None
    as_json: Json = False
    debug: Debug = False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its groups in the place of the groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def spread(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    signature = inspect.signature(command)
    parameters = list(_spread(signature, hints, groups))
    spread.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return spread


def _spread(
    signature: inspect.Signature, hints: dict[str, Any], groups: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    for name, parameter in signature.parameters.items():
        if name not in groups:
            yield parameter.replace(annotation=hints[name])
            continue
        options = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(
                field.name, parameter.KEYWORD_ONLY, default=default, annotation=options[field.name]
            )
