"""`ehkafka check`: shows each step's result as it comes, or all of them as JSON.

On the main thread. Knows nothing of what a step does; never prints anything but results, which are clean.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import orjson
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ehkafka.checks import Status, run_checks
from ehkafka.cli.unread import PipedConsole, quiet_pipe
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from rich.console import Console

    from ehkafka.checks import CheckResult, Report, Target

MARKS: Final = {Status.OK: "✓", Status.FAILED: "✗", Status.SKIPPED: "–", Status.NOT_MEASURED: "–"}
# For a terminal or a pipe that has no such signs.
PLAIN_MARKS: Final = {Status.OK: "ok", Status.FAILED: "FAILED", Status.SKIPPED: "-", Status.NOT_MEASURED: "-"}
STYLES: Final = {
    Status.OK: "green",
    Status.FAILED: "bold red",
    Status.SKIPPED: "dim",
    Status.NOT_MEASURED: "dim",
}
NAME_WIDTH: Final = 10


def check(target: Target, *, timeout_s: float, as_json: bool) -> int:
    """Run the checks, show them on stdout and return the exit code."""
    if as_json:
        report = run_checks(target, timeout_s=timeout_s)
        with quiet_pipe():
            sys.stdout.buffer.write(orjson.dumps(report.as_dict(), option=orjson.OPT_INDENT_2) + b"\n")
        return report.exit_code
    console = PipedConsole(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    show = show_row if console.is_terminal else show_line
    report = run_checks(target, timeout_s=timeout_s, on_result=lambda result: show(console, result))
    show_end(console, report)
    return report.exit_code


def marks(console: Console) -> dict[Status, str]:
    """Return the signs that this output can carry."""
    try:
        "".join(MARKS.values()).encode(console.encoding)
    except UnicodeEncodeError:
        return PLAIN_MARKS
    return MARKS


def show_row(console: Console, result: CheckResult) -> None:
    """For eyes: wrapped within the text's column, the fix below."""
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=1)
    row.add_column(width=NAME_WIDTH, no_wrap=True)
    row.add_column(ratio=1)
    style = STYLES[result.status]
    row.add_row(Text(marks(console)[result.status], style), Text(result.name, style), _text(result))
    if result.fix:
        row.add_row("", "", Text.assemble(("→ ", "yellow"), (result.fix, "yellow")))
    console.print(Padding(row, 0))


def show_line(console: Console, result: CheckResult) -> None:
    """For programs: one line, whatever its length."""
    shown = _text(result).plain
    fixed = f"{ended(shown)} Fix: {ended(result.fix)}" if result.fix else shown
    console.print(f"{marks(console)[result.status]} {result.name:<{NAME_WIDTH}} {fixed}")


def _text(result: CheckResult) -> Text:
    is_dim = result.status in (Status.SKIPPED, Status.NOT_MEASURED)
    text = Text(style="dim" if is_dim else "")
    if result.subject:
        text.append(f"{result.subject}: ", "" if is_dim else "cyan")
    return text.append(result.text)


def show_end(console: Console, report: Report) -> None:
    """Say in one line what came of it."""
    counts = {status: sum(r.status is status for r in report.results) for status in Status}
    where = f"{report.endpoint}"
    if failed := counts[Status.FAILED]:
        skipped = counts[Status.SKIPPED]
        also = f", {skipped} not tried because of it" if skipped else ""
        console.print(Text(f"{where}: {failed} failed{also}", "bold red"))
    else:
        console.print(Text(f"{where}: all is well, {counted(counts[Status.OK], 'check')}", "bold green"))
