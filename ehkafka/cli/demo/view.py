"""What is shown of a run: a screen of 24 lines and 80 columns or more, or a line a second, and the summary.

On the session's thread. It shows what the snapshot says and nothing it has not measured.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

import orjson
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ehkafka.cli.unread import PipedConsole, quiet_pipe
from ehkafka.telemetry import Snapshot
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ehkafka import EhkafkaError, TopicPartition
    from ehkafka.cli.demo.session import DemoPlan
    from ehkafka.telemetry import PartitionSnapshot
    from ehkafka.testing import Verdict

# A rate is the mean over this long: shorter ones jump, longer ones lie about what happens now.
RATE_WINDOW_S: Final = 1.0
CURVE_POINT_S: Final = 0.5
BARS: Final = "▁▂▃▄▅▆▇█"
HEADS: Final = ("part", "records/s", "lag", "backlog", "lanes", "watermark", "committed", "oldest key", "ms")
# Of one width whatever they hold: a table that breathes cannot be read. With the gaps they fill 80 columns.
WIDTHS: Final = (4, 9, 7, 8, 7, 10, 10, 11, 6)
# Lines beside the partitions: two heads, the table's head and total, three of the foot, and the last line of
# the screen, which stays empty so that nothing scrolls.
LINES_AROUND: Final = 8
# From here on there is room for a bar beside the table.
WIDE_COLUMNS: Final = 120
BAR_COLUMNS: Final = 30
VIOLATED_EXIT_CODE: Final = 1
SUMMARY: Final = """\
  {finished_records} of {stored_records} readings of {homes} homes in {took}
  {records_per_s} per second, {workers} workers, the checker on
  at most {lanes_max} lanes, {backlog_records_max} records of backlog, {lag_records_max} of lag
  order violations {order_violations}, premature commits {premature_commits}, lost {lost}, unseen {unseen}
  duplicates {duplicates}, commits {commits_acknowledged}, swapped by the homes' own count {swapped}"""


class Picture:
    """One moment of the run, and what only earlier ones can tell."""

    def __init__(self, plan: DemoPlan) -> None:
        self.plan = plan
        self.snapshot = Snapshot.empty("", plan.address, "new", 0.0)
        self.phase, self.elapsed_s, self.stored_records = "", 0.0, 0
        # Finished records per second, of each partition and, as None, of all; and these, oldest first.
        self.rates: dict[TopicPartition | None, float] = {None: 0.0}
        self.curve: deque[float] = deque(maxlen=40)
        self.highest = {"lanes_max": 0, "lag_records_max": 0, "backlog_records_max": 0}
        # Without what is still missing; None until it is known.
        self.verdict: Verdict | None = None
        self._window: deque[Snapshot] = deque()
        self._next_point_s = 0.0

    def take(self, snapshot: Snapshot, phase: str, elapsed_s: float, stored_records: int) -> None:
        """Go on to a later moment."""
        self.snapshot, self.phase = snapshot, phase
        self.elapsed_s, self.stored_records = elapsed_s, stored_records
        now_s, window = snapshot.uptime_s, self._window
        window.append(snapshot)
        while len(window) > 2 and window[1].uptime_s <= now_s - RATE_WINDOW_S:
            window.popleft()
        before, span_s = _finished(window[0]), now_s - window[0].uptime_s or float("inf")
        now = _finished(snapshot).items()
        self.rates = {what: max(0, count - before.get(what, count)) / span_s for what, count in now}
        if now_s >= self._next_point_s:
            self._next_point_s = now_s + CURVE_POINT_S
            self.curve.append(self.rates[None])
        for name, value in self.highest.items():
            self.highest[name] = max(value, getattr(snapshot, name.removesuffix("_max")) or 0)


@contextmanager
def shown(*, as_json: bool, warnings: Sequence[str]) -> Iterator[Callable[[Picture], None]]:
    """Own the terminal, if there is one, until the block ends; what is yielded shows a picture."""
    if as_json or not sys.stdout.isatty():
        yield ProgressLines(sys.stderr).show
        return
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        yield lambda picture: live.update(draw(picture, *live.console.size, warnings), refresh=True)


class ProgressLines:
    """Writes one plain line a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s = 0.0

    def show(self, picture: Picture) -> None:
        """Write a line, if the last one is a second old."""
        snapshot, verdict = picture.snapshot, picture.verdict
        if snapshot.uptime_s < self._next_s:
            return
        self._next_s = snapshot.uptime_s + 1.0
        checked = "not checked yet"
        if verdict is not None:
            checked = "no violation so far" if verdict.ok else f"VIOLATED: {verdict.violations}"
        self._stream.write(
            f"{picture.elapsed_s:5.1f} s {picture.phase}: {picture.rates[None]:.0f} records/s, "
            f"{snapshot.finished_records} of {picture.stored_records} finished, "
            f"lag {'?' if snapshot.lag_records is None else snapshot.lag_records}, "
            f"backlog {snapshot.backlog_records}, lanes {snapshot.lanes}, {checked}\n"
        )
        self._stream.flush()


def draw(picture: Picture, width: int, height: int, warnings: Sequence[str] = ()) -> Group:
    """Return the whole screen. As many partitions as fit get a row."""
    plan, snapshot, verdict = picture.plan, picture.snapshot, picture.verdict
    goals = [seconds(plan.seconds)] if plan.seconds is not None else []
    goals += [f"{plan.records} records"] if plan.records is not None else []
    where = f"  {plan.address}, {plan.workers} workers, the checker on  "
    elapsed = (f"{picture.elapsed_s:.0f} s", "bold")
    head = Text.assemble(
        ("ehkafka demo", "bold"), where, elapsed, f" of {' or '.join(goals)}, {picture.phase}"
    )
    rate, curve = (f"{grouped(picture.rates[None]):>7}", "bold green"), (sparkline(picture.curve), "green")
    rates = Text.assemble(rate, " records/s ", curve, f" {grouped(snapshot.finished_records)} finished")
    one = max((p for p in snapshot.partitions if p.oldest), default=None, key=_age_s)
    oldest = Text("oldest: nothing waits", "dim")
    if one is not None and one.oldest is not None:
        key, state = _key(one.oldest.key), f"{one.oldest.state}, {_age_s(one) * 1000:.0f} ms"
        oldest = Text(f"oldest: {key} at {one.partition}@{one.oldest.offset}, {state}", "yellow")
    checker = Text("checker: nothing judged yet", "dim")
    if verdict is not None:
        counts = ("order violations", "premature commits", "lost", "duplicates")
        words = ", ".join(f"{name} {getattr(verdict, name.replace(' ', '_'))}" for name in counts)
        style = "green" if verdict.ok else "bold white on red"
        checker = Text(f"checker: {'' if verdict.ok else 'VIOLATED, '}{words}", style)
    hint = "Ctrl-C exits at once" if picture.phase == "finishing" else "Ctrl-C ends it with the summary"
    foot = Text(warnings[-1], "bold yellow") if warnings else Text(hint, "dim")
    for line in (head, rates, oldest, checker, foot):
        line.no_wrap, line.overflow = True, "ellipsis"
    table = _table(picture, max(1, height - LINES_AROUND), one, is_wide=width >= WIDE_COLUMNS)
    return Group(head, rates, table, oldest, checker, foot)


def sparkline(values: Sequence[float]) -> str:
    """Draw the values as bars between 0 and their highest."""
    highest = max(values, default=0.0) or 1.0
    return "".join(BARS[round(value / highest * (len(BARS) - 1))] for value in values)


def grouped(value: float | None) -> str:
    """Write a number with its thousands apart."""
    return "-" if value is None else f"{value:,.0f}".replace(",", " ")


def _table(picture: Picture, rows_max: int, oldest: PartitionSnapshot | None, *, is_wide: bool) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name, width in zip(HEADS, WIDTHS, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=width, max_width=width)
    table.columns[0].style, table.columns[HEADS.index("oldest key")].justify = "dim", "left"
    if is_wide:
        table.add_column("how long it has waited", no_wrap=True)
    total, every = picture.snapshot, picture.snapshot.partitions
    rows = rows_max if len(every) <= rows_max else rows_max - 1
    for one in every[:rows]:
        marks = (one.lag_records, one.backlog_records, one.lanes, one.watermark, one.committed)
        row = [str(one.partition.partition), *map(grouped, (picture.rates.get(one.partition), *marks))]
        row[3] = ("‖" if one.paused else "") + row[3]
        if one.oldest is not None:
            row += [_key(one.oldest.key), grouped(_age_s(one) * 1000)]
            row += ["█" * max(1, round(BAR_COLUMNS * _age_s(one) / (_age_s(oldest) or 1)))] if is_wide else []
        table.add_row(*row, style="yellow" if one is oldest else "")
    if len(every) > rows:
        table.add_row("…", f"{len(every) - rows} more", style="dim")
    sums = (sum(one.watermark or 0 for one in every), sum(one.committed or 0 for one in every))
    counts = (picture.rates[None], total.lag_records, total.backlog_records, total.lanes)
    table.add_row("all", *map(grouped, (*counts, *sums)), style="bold")
    return table


def _finished(snapshot: Snapshot) -> dict[TopicPartition | None, int]:
    return {None: snapshot.finished_records} | {p.partition: p.finished_records for p in snapshot.partitions}


def _age_s(one: PartitionSnapshot | None) -> float:
    return one.oldest.age_s if one is not None and one.oldest is not None else 0.0


def _key(key: str) -> str:
    return key.removeprefix("b'").removesuffix("'")


@dataclass(frozen=True, slots=True)
class Summary:
    """What is left of a run: its numbers (see `Session`), the checker's verdict, and whether all is well."""

    facts: Mapping[str, Any]
    verdict: Verdict
    failure: EhkafkaError | None = None

    @property
    def problems(self) -> list[str]:
        """What is wrong, each as a sentence; empty when all is well."""
        verdict, finished = self.verdict, self.facts["finished_records"]
        counts = {name.replace("_", " "): count for name, count in verdict.violations.items()}
        counts["duplicates that nothing explains"] = verdict.duplicates_unexplained
        found = [f"The checker counted {name}: {count}." for name, count in counts.items() if count]
        if verdict.finished != finished:
            found.append(f"The app counts {finished} finished readings, the checker {verdict.finished}.")
        if not verdict.finished:
            found.append("No reading was handled, so nothing was checked.")
        if self.facts["swapped"]:
            found.append(f"The homes counted readings before an earlier one: {self.facts['swapped']}.")
        return found

    @property
    def exit_code(self) -> int:
        """0 only if all is well; a violation outweighs the failure's own."""
        if self.failure is not None and not (self.problems and self.verdict.finished):
            return self.failure.exit_code
        return VIOLATED_EXIT_CODE if self.problems else 0

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        failure = None if self.failure is None else str(self.failure)
        good = {"ok": failure is None and not self.problems, "problems": self.problems, "failure": failure}
        return {**good, **self.facts, "verdict": self.verdict.as_dict()}

    def show(self, *, as_json: bool) -> None:
        """Write it to stdout; as JSON it is all that stdout gets."""
        if as_json:
            with quiet_pipe():
                sys.stdout.buffer.write(orjson.dumps(self.as_dict(), option=orjson.OPT_INDENT_2) + b"\n")
            return
        console = PipedConsole(highlight=False, soft_wrap=True)
        for line in self.lines():
            console.print(line)

    def lines(self) -> list[Text]:
        """Return it for people; a bad one begins and ends with what is wrong."""
        facts, problems = self.facts, self.problems
        head = Text("OK: every promise was kept", "bold green")
        if problems or self.failure is not None:
            what = (
                "VIOLATED: the promises were not kept" if problems else "FAILED: it did not come to its end"
            )
            head = Text(f" {what} ", "bold white on red")
        counts = {
            name: value for name, value in {**self.verdict.as_dict(), **facts}.items() if value is not None
        }
        numbers = {name: grouped(value) for name, value in counts.items() if isinstance(value, int | float)}
        lines = [SUMMARY.format(**numbers, took=seconds(facts["seconds"]))]
        if facts["left_early"]:
            missing = grouped(facts["stored_records"] - facts["finished_records"])
            lines.append(f"  left early: {missing} readings without an outcome, not committed")
        bad = [f"  {problem}" for problem in problems]
        bad += [f"    {name}: {text}" for name, texts in self.verdict.examples.items() for text in texts]
        bad += [f"  {self.failure}"] if self.failure is not None else []
        bad += ["  This is a defect. Please report it with all of the lines above."] if problems else []
        return [head, *map(Text, lines), *(Text(line, "bold red") for line in bad)]
