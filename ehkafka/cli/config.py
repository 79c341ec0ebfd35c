"""`ehkafka config`: every value in effect, for an app or for what file and environment say alone.

A table for eyes, one aligned line each for a pipe, JSON for programs. On the main thread. Starts nothing but
what asking an endpoint for its properties starts; shows no secret, for the values come from
`App.configuration`, which has struck them out. A text may come from a file or a variable and hold anything:
what steers a terminal is escaped.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ehkafka import App
from ehkafka.app.configuration import shown
from ehkafka.app.effective import Effective
from ehkafka.cli.app_path import load_app
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.options import Assignments, Config, Json
from ehkafka.cli.output import NONE, PipedConsole, put_json, quiet_pipe
from ehkafka.cli.settings.given import Given
from ehkafka.wording import ended
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.console import Console

    from ehkafka.cli.settings.layer import HandlerValue

MISSING = "missing"
# What an app's code has to give, and so stands in for it when there is no app.
_REQUIRED = {
    "group": "set it in the app's code, or as EHKAFKA_GROUP",
    "start": "set it in the app's code, or as EHKAFKA_START",
    "group.id": "the app's group",
}
TITLES: Final = {
    "endpoint": "Endpoint",
    "app": "App",
    "handlers": "Options of handlers that can be set outside the code",
    "consumer": "librdkafka properties of the consumer",
    "producer": "librdkafka properties of the producers of outputs, dead letters and app.producer",
}
ORDER: Final = (
    "A setting has the value of the first source that gives one: flag, variable, file, the "
    "app's code, ehkafka's default."
)
# Below it the reason has a line of its own.
WIDE_COLUMNS: Final = 110
VALUE_WIDTH_MAX: Final = 32
_USUAL = frozenset({"default", "engine", "endpoint"})

cli = CommandLine()


@cli.command("config")
def show_config(
    app: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="The ehkafka.App whose settings are shown.")
    ] = None,
    *,
    config: Config = None,
    assignments: Assignments = None,
    as_json: Json = False,
) -> None:
    r"""Show every setting in effect: its value, its source, and what it does.

    A setting has the value of the first source that gives one: a flag (--set), a variable (EHKAFKA_DRAIN_S),
    the file (--config), the app's code, ehkafka's default. An endpoint in the app's code is never
    replaced; an app without an endpoint takes it from variables or the file. Secrets are shown as ***.

    \b
    Examples:
      ehkafka config shop.orders:app                 the settings of that app
      ehkafka config                                 the settings of the file and the environment
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

    The file that --config or EHKAFKA_CONFIG names may be a pipe.

    \b
    The same as variables:
      EHKAFKA_DRAIN_S=20 EHKAFKA_MAX_AGE=7d EHKAFKA_CONNECTION_STRING_FILE=/mnt/secrets/hub
      EHKAFKA_PROPERTY_SSL_CA_LOCATION=/etc/ssl/own.pem EHKAFKA_CONSUMER_FETCH_MAX_BYTES=10000000

    """
    show(effective(app, Given.read(config, assignments or ())), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Shown:
    """What `config` shows: the values, whose they are, and the file that was read."""

    values: tuple[Effective, ...]
    app: str | None
    file: Path | None


def effective(app: str | None, given: Given) -> Shown:
    """Return every value in effect. Raises `ConfigurationError` for what a start would refuse."""
    if app is not None:
        found = load_app(app)
        given.apply(found)
        with found.endpoint:
            return Shown(found.configuration(), app, given.file)
    stand_in = App(group=MISSING, start="earliest")
    replace(given, layer=replace(given.layer, handlers=[])).apply(stand_in)
    with stand_in.endpoint:
        values = [_marked(value, given) for value in stand_in.configuration()]
    last = {(value.name, value.option): value for value in given.layer.handlers}
    return Shown((*values, *map(_of_a_handler, last.values())), None, given.file)


def _marked(value: Effective, given: Given) -> Effective:
    """Return a value of the stand-in as missing: no app has given it."""
    setting = "group" if value.name == "group.id" else value.name
    if value.name not in _REQUIRED or setting in given.layer.tables["app"]:
        return value
    return replace(value, value=None, origin=MISSING, reason=_REQUIRED[value.name])


def _of_a_handler(value: HandlerValue) -> Effective:
    """Return an option of a handler that only the app's handlers explain."""
    name = value.name if value.option is None else f"{value.name}.{value.option}"
    hidden = shown(value.option or value.name, value.value) == "***"
    given = value.value if isinstance(value.value, bool | int | float) else f"{value.value}"
    return Effective(
        "handlers",
        name,
        "***" if hidden else given,
        value.origin,
        "of the app's handlers, name the app to see them",
    )


def show(found: Shown, *, as_json: bool) -> None:
    """Write the values to stdout."""
    if as_json:
        file = None if found.file is None else str(found.file)
        put_json({"app": found.app, "file": file, "values": [asdict(value) for value in found.values]})
        return
    with quiet_pipe():
        console = PipedConsole(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
        if console.is_terminal:
            _show_table(console, found)
        else:
            for line in lines(found.values):
                console.print(line)


def lines(values: Sequence[Effective]) -> Iterable[str]:
    """Return one aligned line for each value: section, name, value, origin, reason, advice."""
    rows = [(f"{v.section}.{v.name}", _text(v.value), printable(v.origin)) for v in values]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for value, row in zip(values, rows, strict=True):
        columns = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        advice = f" ADVICE: {printable(value.advice)}" if value.advice else ""
        yield f"{columns}  {printable(value.reason)}{advice}".rstrip()


def _show_table(console: Console, shown: Shown) -> None:
    for section, group in groupby(shown.values, key=lambda value: value.section):
        values = list(group)
        console.print(Text(TITLES[section], "bold"))
        show_section = _show_wide if console.width >= WIDE_COLUMNS else _show_narrow
        show_section(console, values)
        console.print()
        _show_advice(console, [value for value in values if value.advice])
    console.print(Text(f"{_read(shown)} {ORDER}", "dim"))


def _show_wide(console: Console, values: Sequence[Effective]) -> None:
    """Show each value in a row of three columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(max_width=VALUE_WIDTH_MAX, overflow="fold")
    table.add_column(ratio=1)
    for value in values:
        table.add_row(_name(value), _value(value), _why(value))
    console.print(Padding(table, (0, 0, 0, 2)))


def _show_narrow(console: Console, values: Sequence[Effective]) -> None:
    """Show each value in a line, and the reason below."""
    width = max(len(value.name) for value in values) + 2
    for value in values:
        name = _name(value)
        name.pad_right(width - len(value.name))
        console.print(Padding(name + _value(value), (0, 0, 0, 2)))
        console.print(Padding(_why(value), (0, 0, 0, 6)))


def _name(value: Effective) -> Text:
    return Text(value.name, "yellow" if value.advice else "")


def _value(value: Effective) -> Text:
    return Text(_text(value.value), "" if value.origin in _USUAL else "bold")


def _why(value: Effective) -> Text:
    mark = "bold red" if value.origin == MISSING else "cyan"
    origin = Text(printable(value.origin), "dim" if value.origin in _USUAL else mark)
    return origin.append(f" · {printable(value.reason)}", "dim not bold") if value.reason else origin


def _show_advice(console: Console, values: Iterable[Effective]) -> None:
    for value in values:
        words = f"{value.name}={_text(value.value)} is not recommended: {ended(printable(value.advice))}"
        console.print(Padding(Text(words, "yellow"), (0, 0, 1, 2)))


def _read(shown: Shown) -> str:
    return f"Read {printable(str(shown.file))}." if shown.file is not None else "No file was read."


def _text(value: str | float | bool | None) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return printable(str(value))
