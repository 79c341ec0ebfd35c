"""Shows effective values: a table for eyes, one aligned line each for a pipe, JSON for programs.

Pure but for writing to stdout. A text may come from a file or a variable and hold anything: what steers a
terminal is escaped.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

import orjson
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ehkafka.cli.config import MISSING
from ehkafka.cli.unread import PipedConsole, quiet_pipe
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from ehkafka.app.effective import Effective
    from ehkafka.cli.config import Shown

TITLES: Final = {
    "endpoint": "Endpoint",
    "app": "App",
    "handlers": "Handlers, what may be set from outside",
    "consumer": "Consumer, properties of librdkafka",
    "producer": "Producers of outputs, dead letters and app.producer, likewise",
}
ORDER: Final = "The first that has a value decides: flag, variable, file, the app's code, ehkafka's default."
# Below it the reason has a line of its own.
WIDE_COLUMNS: Final = 110
VALUE_WIDTH_MAX: Final = 32
_USUAL = frozenset({"default", "engine", "endpoint"})


def show(shown: Shown, *, as_json: bool) -> None:
    """Write the values to stdout."""
    with quiet_pipe():
        if as_json:
            sys.stdout.buffer.write(_json(shown))
            return
        console = PipedConsole(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
        if console.is_terminal:
            _show_table(console, shown)
        else:
            for line in lines(shown.values):
                console.print(line)


def lines(values: Sequence[Effective]) -> Iterable[str]:
    """Return one aligned line for each value: section, name, value, origin, reason, advice."""
    rows = [(f"{v.section}.{v.name}", _text(v.value), _clean(v.origin)) for v in values]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for value, row in zip(values, rows, strict=True):
        columns = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        advice = f" ADVICE: {_clean(value.advice)}" if value.advice else ""
        yield f"{columns}  {_clean(value.reason)}{advice}".rstrip()


def _json(shown: Shown) -> bytes:
    whole = {
        "app": shown.app,
        "file": None if shown.file is None else str(shown.file),
        "values": [asdict(value) for value in shown.values],
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


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
    origin = Text(_clean(value.origin), "dim" if value.origin in _USUAL else mark)
    return origin.append(f" · {_clean(value.reason)}", "dim not bold") if value.reason else origin


def _show_advice(console: Console, values: Iterable[Effective]) -> None:
    for value in values:
        words = f"{value.name}={_text(value.value)} is not advised: {ended(_clean(value.advice))}"
        console.print(Padding(Text(words, "yellow"), (0, 0, 1, 2)))


def _read(shown: Shown) -> str:
    return f"Read {_clean(str(shown.file))}." if shown.file is not None else "No file was read."


def _text(value: str | float | bool | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return _clean(str(value))


def _clean(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
