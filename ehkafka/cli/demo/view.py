"""The live view: one screen of 24 lines and 80 columns or more, drawn anew for every picture.

On the session's thread. It shows what the snapshot says and nothing it has not measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from rich.console import RenderableType

    from ehkafka.cli.demo.picture import Picture
    from ehkafka.telemetry import PartitionSnapshot

BARS: Final = "▁▂▃▄▅▆▇█"
# Their widths and the gaps between them fill 80 columns.
COLUMNS: Final = {
    "part": 4,
    "records/s": 9,
    "lag": 7,
    "backlog": 8,
    "lanes": 7,
    "watermark": 10,
    "committed": 10,
    "oldest key": 11,
    "ms": 6,
}
# Lines beside the rows of the table: two heads, the table's head and total, three of the foot, and the
# last line of the screen, which stays empty so that nothing scrolls.
LINES_AROUND: Final = 8
# From here on there is room for a bar beside the table.
WIDE_COLUMNS: Final = 120
AGE_BAR_COLUMNS: Final = 30


class LiveView:
    """Owns the terminal between enter and exit."""

    def __init__(self, warnings: Sequence[str], console: Console | None = None) -> None:
        self._warnings = warnings
        self._console = console or Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, picture: Picture) -> None:
        """Draw the picture."""
        width, height = self._console.size
        last = self._warnings[-1] if self._warnings else None
        self._live.update(draw(picture, width=width, height=height, warning=last), refresh=True)


def draw(picture: Picture, *, width: int, height: int, warning: str | None = None) -> RenderableType:
    """Return the whole screen. As many partitions as fit get a row."""
    lines: list[Text | Table] = [
        _title(picture),
        _rate_line(picture),
        _table(picture, width, max(1, height - LINES_AROUND)),
    ]
    lines += [_oldest_line(picture), _verdict_line(picture), _hint(picture, warning)]
    for line in lines:
        if isinstance(line, Text):
            line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def sparkline(values: Sequence[float]) -> str:
    """Draw the values as bars between 0 and their highest."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return BARS[0] * len(values)
    return "".join(BARS[round(value / highest * (len(BARS) - 1))] for value in values)


def _title(picture: Picture) -> Text:
    plan = picture.plan
    goals = [f"{seconds(plan.seconds)}"] if plan.seconds is not None else []
    goals += [f"{plan.records} records"] if plan.records is not None else []
    return Text.assemble(
        ("ehkafka demo", "bold"),
        f"  {plan.address}, {plan.workers} workers, the checker on  ",
        (f"{picture.elapsed_s:.0f} s", "bold"),
        f" of {' or '.join(goals)}, {picture.phase}",
    )


def _rate_line(picture: Picture) -> Text:
    return Text.assemble(
        (f"{picture.rate_per_s:>7,.0f}".replace(",", " "), "bold green"),
        " records/s ",
        (sparkline(picture.curve[-40:]), "green"),
        f" {_number(picture.snapshot.finished_records)} finished",
    )


def _table(picture: Picture, width: int, rows: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name, columns in COLUMNS.items():
        # Of one width whatever they hold: a table that breathes cannot be read.
        table.add_column(
            name,
            style="dim" if name == "part" else "",
            justify="left" if name == "oldest key" else "right",
            no_wrap=True,
            min_width=columns,
            max_width=columns,
        )
    if width >= WIDE_COLUMNS:
        table.add_column("how long it has waited", no_wrap=True)
    partitions, rates = picture.snapshot.partitions, picture.partition_rates_per_s
    oldest = picture.oldest
    hidden = len(partitions) - rows
    for one, rate in list(zip(partitions, rates, strict=False))[: rows if hidden <= 0 else rows - 1]:
        bar = _age_bar(one, oldest) if width >= WIDE_COLUMNS else []
        table.add_row(*_row(one, rate), *bar, style="yellow" if one is oldest else "")
    if hidden > 0:
        table.add_row("…", f"{hidden + 1} more", style="dim")
    table.add_row(*_total_row(picture), style="bold")
    return table


def _row(one: PartitionSnapshot, rate_per_s: float) -> list[str]:
    waiting = one.oldest
    return [
        str(one.partition.partition),
        _number(round(rate_per_s)),
        _number(one.lag_records),
        ("‖" if one.paused else "") + _number(one.backlog_records),
        _number(one.lanes),
        _number(one.watermark),
        _number(one.committed),
        _key(waiting.key) if waiting else "",
        _number(round(waiting.age_s * 1000)) if waiting else "",
    ]


def _age_bar(one: PartitionSnapshot, oldest: PartitionSnapshot | None) -> list[str]:
    if one.oldest is None or oldest is None or oldest.oldest is None or oldest.oldest.age_s <= 0:
        return [""]
    return ["█" * max(1, round(AGE_BAR_COLUMNS * one.oldest.age_s / oldest.oldest.age_s))]


def _total_row(picture: Picture) -> list[str]:
    snapshot = picture.snapshot
    marks = [one.watermark for one in snapshot.partitions if one.watermark is not None]
    committed = [one.committed for one in snapshot.partitions if one.committed is not None]
    return [
        "all",
        _number(round(picture.rate_per_s)),
        _number(snapshot.lag_records),
        _number(snapshot.backlog_records),
        _number(snapshot.lanes),
        _number(sum(marks)),
        _number(sum(committed)),
        "",
        "",
    ]


def _oldest_line(picture: Picture) -> Text:
    one = picture.oldest
    if one is None or one.oldest is None:
        return Text("oldest: nothing waits", style="dim")
    oldest = one.oldest
    return Text(
        f"oldest: {_key(oldest.key)} at {one.partition}@{oldest.offset}, {oldest.state}, "
        f"{oldest.age_s * 1000:.0f} ms",
        style="yellow",
    )


def _verdict_line(picture: Picture) -> Text:
    verdict = picture.verdict
    if verdict is None:
        return Text("checker: nothing judged yet", style="dim")
    text = (
        f"checker: {'' if verdict.ok else 'VIOLATED, '}order violations {verdict.order_violations}, "
        f"premature commits {verdict.premature_commits}, lost {verdict.lost}, "
        f"duplicates {verdict.duplicates}"
    )
    return Text(text, style="green" if verdict.ok else "bold white on red")


def _hint(picture: Picture, warning: str | None) -> Text:
    if warning is not None:
        return Text(warning, style="bold yellow")
    if picture.phase == "finishing":
        return Text("Ctrl-C leaves at once", style="dim")
    return Text("Ctrl-C ends it with the summary", style="dim")


def _key(key: str) -> str:
    return key.removeprefix("b'").removesuffix("'")


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}".replace(",", " ")
