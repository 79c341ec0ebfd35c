"""What is shown of a run: a screen of 24 lines and 80 columns or more, or a line a second, and the summary.

On the session's thread. It shows what the snapshot says and nothing it has not measured.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ehkafka.telemetry import Snapshot
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from session import DemoPlan

    from ehkafka import EhkafkaError, TopicPartition
    from ehkafka.telemetry.snapshot import Unfinished
    from tests.kit.checker.verdict import Verdict

# A rate is the mean over 1 s: shorter ones jump, longer ones lie about what happens now.
RATE_PICTURES: Final = 4
BARS: Final = "▁▂▃▄▅▆▇█"
HEADS: Final = ("part", "records/s", "lag", "backlog", "lanes", "watermark", "committed", "oldest key", "ms")
COUNTS: Final = ("lag_records", "backlog_records", "lanes", "watermark", "committed")
# Of one width whatever they hold: a table that breathes cannot be read. With the gaps they fill 80 columns.
WIDTHS: Final = (4, 9, 7, 8, 7, 10, 10, 11, 6)
# Apart from the partitions: two heads, the table's head and total, three of the foot, and an empty last line,
# so that nothing scrolls.
LINES_AROUND: Final = 8
SEEN: Final = ("order_violations", "premature_commits", "lost", "duplicates")
LOUD: Final = "bold white on red"
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
        self.phase, self.elapsed_s, self.stored_records = "producing", 0.0, 0
        # Finished records per second, of each partition and, as None, of all; and these, oldest first.
        self.rates: dict[TopicPartition | None, float] = {None: 0.0}
        self.curve: deque[float] = deque(maxlen=40)
        self.highest = {"lanes_max": 0, "lag_records_max": 0, "backlog_records_max": 0}
        # Without what is still missing; None until it is known.
        self.verdict: Verdict | None = None
        # When, and what was finished of each partition; the first is the one before the rates.
        self._window: deque[tuple[float, dict[TopicPartition | None, int]]] = deque(maxlen=RATE_PICTURES + 1)

    def take(self, snapshot: Snapshot, elapsed_s: float, stored_records: int) -> None:
        """Advance to a later moment."""
        self.snapshot, self.elapsed_s, self.stored_records = snapshot, elapsed_s, stored_records
        now: dict[TopicPartition | None, int] = {None: snapshot.finished_records}
        now.update((one.partition, one.finished_records) for one in snapshot.partitions)
        self._window.append((snapshot.uptime_s, now))
        before_s, before = self._window[0]
        span_s = snapshot.uptime_s - before_s or float("inf")
        self.rates = {of: max(0, count - before.get(of, count)) / span_s for of, count in now.items()}
        self.curve.append(self.rates[None])
        for name, value in self.highest.items():
            self.highest[name] = max(value, getattr(snapshot, name.removesuffix("_max")) or 0)

    def checked(self) -> str:
        """What the checker has found so far."""
        if (verdict := self.verdict) is None:
            return "checker: nothing judged yet"
        counts = verdict.violations | {name: getattr(verdict, name) for name in SEEN}
        found = ", ".join(f"{name} {count}" for name, count in counts.items()).replace("_", " ")
        return f"checker: {found}" if verdict.ok else f"checker: VIOLATED, {found}"


@contextmanager
def shown(*, as_json: bool, warnings: Sequence[str]) -> Iterator[Callable[[Picture], None]]:
    """Own the terminal, if there is one, until the block ends; what is yielded shows a picture."""
    next_s = 0.0

    def write_line(picture: Picture) -> None:
        nonlocal next_s
        if (snapshot := picture.snapshot).uptime_s < next_s:
            return
        next_s = snapshot.uptime_s + 1.0
        sys.stderr.write(
            f"{picture.elapsed_s:5.1f} s {picture.phase}: {picture.rates[None]:.0f} records/s, "
            f"{snapshot.finished_records} of {picture.stored_records} finished, "
            f"lag {'?' if snapshot.lag_records is None else snapshot.lag_records}, "
            f"backlog {snapshot.backlog_records}, lanes {snapshot.lanes}, {picture.checked()}\n"
        )

    if as_json or not sys.stdout.isatty():
        yield write_line
    else:
        with Live(console=Console(), screen=True, auto_refresh=False) as live:
            yield lambda picture: live.update(draw(picture, live.console.height, warnings), refresh=True)


def draw(picture: Picture, height: int, warnings: Sequence[str] = ()) -> Group:
    """Return the whole screen. As many partitions as fit get a row."""
    plan, snapshot, verdict = picture.plan, picture.snapshot, picture.verdict
    what, when = f"  {plan.address}, {plan.workers} workers, the checker on  ", f"{picture.elapsed_s:.0f} s"
    head = Text.assemble(("demo", "bold"), what, (when, "bold"), f" of {plan.goal}, {picture.phase}")
    rate, curve = (f"{grouped(picture.rates[None]):>7}", "bold green"), (sparkline(picture.curve), "green")
    rates = Text.assemble(rate, " records/s ", curve, f" {grouped(snapshot.finished_records)} finished")
    oldest = Text("oldest: nothing waits", "dim")
    waiting = [(p.oldest.age_s, p.partition, p.oldest) for p in snapshot.partitions if p.oldest]
    age_s, where, one = max(waiting, default=(0.0, None, None), key=itemgetter(0))
    if one is not None:
        text = f"oldest: {_key(one)} at {where}@{one.offset}, {one.state}, {age_s * 1000:.0f} ms"
        oldest = Text(text, "yellow")
    checker = Text(picture.checked(), "dim" if verdict is None else "green" if verdict.ok else LOUD)
    hint = "Ctrl-C exits at once" if picture.phase == "finishing" else "Ctrl-C ends it with the summary"
    foot = Text(warnings[-1], "bold yellow") if warnings else Text(hint, "dim")
    for line in (head, rates, oldest, checker, foot):
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(head, rates, _table(picture, max(1, height - LINES_AROUND), where), oldest, checker, foot)


def sparkline(values: Sequence[float]) -> str:
    """Draw the values as bars between 0 and their highest."""
    highest = max(values, default=0.0) or 1.0
    return "".join(BARS[round(value / highest * (len(BARS) - 1))] for value in values)


def grouped(value: float | None) -> str:
    """Write a number with its thousands apart."""
    return "-" if value is None else f"{value:,.0f}".replace(",", " ")


def _table(picture: Picture, rows_max: int, oldest: TopicPartition | None) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name, width in zip(HEADS, WIDTHS, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=width, max_width=width)
    table.columns[0].style, table.columns[-2].justify = "dim", "left"
    every = picture.snapshot.partitions
    counts = [[getattr(one, name) for name in COUNTS] for one in every]
    rows = rows_max if len(every) <= rows_max else rows_max - 1
    for one, row in zip(every[:rows], counts, strict=False):
        cells = [grouped(value) for value in (picture.rates.get(one.partition), *row)]
        cells[2] = ("‖" if one.paused else "") + cells[2]
        if one.oldest is not None:
            cells += [_key(one.oldest), grouped(one.oldest.age_s * 1000)]
        table.add_row(str(one.partition.partition), *cells, style="yellow" if one.partition == oldest else "")
    if len(every) > rows:
        table.add_row("…", f"{len(every) - rows} more", style="dim")
    totals = [None if None in column else sum(column) for column in zip(*counts, strict=True)]
    table.add_row("all", *map(grouped, (picture.rates[None], *totals)), style="bold")
    return table


def _key(record: Unfinished) -> str:
    return record.key.removeprefix("b'").removesuffix("'")


class Summary:
    """What is left of a run: its numbers (see `Session`), the checker's verdict, and whether all is well."""

    def __init__(self, facts: dict[str, Any], verdict: Verdict, failure: EhkafkaError | None = None) -> None:
        self.facts, self.verdict, self.failure = facts, verdict, failure
        finished, swapped = facts["finished_records"], facts["swapped"]
        counts = {**verdict.violations, "duplicates that nothing explains": verdict.duplicates_unexplained}
        found = [f"The checker counted {name.replace('_', ' ')}: {n}." for name, n in counts.items() if n]
        if verdict.finished != finished:
            found.append(f"The app counts {finished} finished readings, the checker {verdict.finished}.")
        if not verdict.finished:
            found.append("No reading was handled, so nothing was checked.")
        if swapped:
            found.append(f"The homes counted readings before an earlier one: {swapped}.")
        # What is wrong, each as a sentence; empty when all is well.
        self.problems = found
        # 1 for a violation, whatever else failed, unless nothing was checked.
        is_violated = found and (failure is None or verdict.finished)
        self.exit_code = 1 if is_violated else 0 if failure is None else failure.exit_code

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        failure = None if self.failure is None else str(self.failure)
        good = {"ok": failure is None and not self.problems, "problems": self.problems, "failure": failure}
        return {**good, **self.facts, "verdict": self.verdict.as_dict()}

    def text(self) -> Text:
        """Return it for people; a bad one begins and ends with what is wrong."""
        facts, problems, failure = self.facts, self.problems, self.failure
        values = {**self.verdict.as_dict(), **facts}.items()
        numbers = {name: grouped(value) for name, value in values if isinstance(value, int | float)}
        lines = [SUMMARY.format(**numbers, took=seconds(facts["seconds"]))]
        if facts["left_early"]:
            missing = grouped(facts["stored_records"] - facts["finished_records"])
            lines.append(f"left early: {missing} readings without an outcome, not committed")
        head = Text("OK: every promise was kept", "bold green")
        if problems or failure is not None:
            ends = ("FAILED: it did not come to its end", "VIOLATED: the promises were not kept")
            head = Text(f" {ends[bool(problems)]} ", LOUD)
        bad = [*problems, *self.verdict.report().splitlines()[1:], *([str(failure)] if failure else [])]
        bad += ["This is a defect. Please report it with all of the lines above."] if problems else []
        return Text("\n  ").join([head, *map(Text, lines), *(Text(line, "bold red") for line in bad)])
