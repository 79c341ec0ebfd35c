"""The tree of commands: each is a module, imported when it is asked for. Called by `__main__`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ehkafka
from ehkafka.cli import MODULES
from ehkafka.cli.command_line import CommandLine, Commands
from ehkafka.cli.exits import CODES

if TYPE_CHECKING:
    from collections.abc import Iterator


class Modules(Mapping[str, Any]):
    """The commands by name: `run` loads none of the others, and the others no more than they need."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a command, as click knows it."""
        if name not in self._loaded:
            first, *_ = [import_module(f"ehkafka.cli.{module}") for module in MODULES[name]]
            self._loaded[name] = typer.main.get_command(first.cli)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class Root(Commands):
    """The tree's root."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": Modules()})


cli = CommandLine(cls=Root)


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
    """Consume Kafka records: strict order per key, and no commit ahead of an unfinished record."""
