"""`ehkafka check`: shows each step's result as it comes, or all of them as JSON.

On the main thread. Knows nothing of what a step does; never prints anything but results, which are clean.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ehkafka.checks.result import Status
from ehkafka.checks.run import run_checks
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.options import Config, Endpoint, Json, OfMirror, Timeout, topic_names
from ehkafka.cli.output import PipedConsole, put_json
from ehkafka.cli.target import chosen_target, with_mirror
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from rich.console import Console

    from ehkafka.checks.result import CheckResult, Report

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

cli = CommandLine()


@cli.command("check")
def check(
    app: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="The ehkafka.App whose connection is checked.")
    ] = None,
    *,
    endpoint: Endpoint = None,
    group: Annotated[str | None, typer.Option(help="The consumer group to check.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="A topic to check; may be given several times.", callback=topic_names),
    ] = None,
    of_mirror: OfMirror,
    timeout_s: Timeout = 10.0,
    config: Config = None,
    as_json: Json = False,
) -> int:
    r"""Check the connection to a broker step by step: name, port, TLS, credential, topic, group, offsets.

    Each step that fails shows the cause and what to do. The command changes none of your data: it joins no
    group, commits only in its own group ehkafka-check, and writes only the blob ehkafka/check into a mirror.

    \b
    Examples:
      ehkafka check shop.orders:app                  the endpoint, topics and group of that app
      ehkafka check --endpoint localhost:9092 --topic orders --group shop
      ehkafka check --topic orders                   the endpoint of the environment
      ehkafka check --topic orders --mirror checkpoints    the mirror in a container, too
      ehkafka check shop.orders --json               for programs

    \b
    Environment:
      EHKAFKA_CONNECTION_STRING, EHKAFKA_CONNECTION_STRING_FILE, EHKAFKA_NAMESPACE or EHKAFKA_BOOTSTRAP,
      name the broker if neither an app nor --endpoint is given
      EHKAFKA_MIRROR_…   name the mirror if neither an app nor --mirror is given; with
      EHKAFKA_MIRROR_CONNECTION_STRING or EHKAFKA_MIRROR_CONNECTION_STRING_FILE --mirror takes a container's
      name

    """
    target = chosen_target(app, endpoint, group=group, topics=topic or (), config=config)
    if of_mirror.mirror is not None or app is None:
        target = with_mirror(target, of_mirror)
    if as_json:
        report = run_checks(target, timeout_s=timeout_s)
        put_json(report.as_dict())
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
    """Report the result in one line."""
    counts = {status: sum(r.status is status for r in report.results) for status in Status}
    where = f"{report.endpoint}"
    if failed := counts[Status.FAILED]:
        skipped = counts[Status.SKIPPED]
        also = f", {skipped} not tried because of it" if skipped else ""
        console.print(Text(f"{where}: {failed} failed{also}", "bold red"))
    else:
        console.print(Text(f"{where}: all is well, {counted(counts[Status.OK], 'check')}", "bold green"))
