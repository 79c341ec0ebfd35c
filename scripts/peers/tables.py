"""The page's tables: one for each workload, its sides below one another, its numbers next to one another."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from _bench_cpu import OTHERS_SHARE_MAX

from peers.figures import Result, number, results

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peers.catalogue import Mode, Side
    from peers.plan import Row
    from peers.raw import Run

DISTURBED = "⚠"
ORDER = {"key": "per key", "partition": "per partition", "none": "none"}


def by_table(all_rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each table, in the order of the plan."""
    found: dict[str, list[Row]] = {}
    for row in all_rows:
        found.setdefault(row.table, []).append(row)
    return found


def table(run: Run, rows: list[Row], sides: list[Side]) -> str:
    """Return the table of some rows, and what has to be said below it."""
    each = {row.column: {one.mode: one for one in results(run, row)} for row in rows}
    modes = [
        (side, mode)
        for side in sides
        for mode in side.modes
        if any(mode.title in found for found in each.values())
    ]
    modes.sort(key=lambda one: _strength(one[1].title, rows, each), reverse=not rows[0].less_is_better)
    notes: dict[str, str] = {}
    lines = [
        f"| | order | {' | '.join(row.column for row in rows)} | CPU s per million |",
        f"|---|---|{'---:|' * (len(rows) + 1)}",
    ]
    for side, mode in modes:
        marks = _marks(side, mode, rows, notes)
        cells = [cell(each[row.column].get(mode.title)) for row in rows]
        cpu = " · ".join(_cpu(each[row.column].get(mode.title)) for row in rows)
        title = f"**{mode.title}**" if side.checkout else mode.title
        lines.append(f"| {title}{marks} | {ORDER[mode.order]} | {' | '.join(cells)} | {cpu} |")
    below = [_others(one for found in each.values() for one in found.values())]
    below += [f"{mark} {sentence}." for sentence, mark in notes.items()]
    below += [
        f"{one.mode}, {row.column}: {'' if one.figure is None else 'in some rounds, '}{one.failed}"
        for row in rows
        for one in each[row.column].values()
        if one.failed
    ]
    return "\n".join([*lines, "", *(f"- {sentence}" for sentence in below if sentence)])


def cell(result: Result | None) -> str:
    """Return a cell: the median, and in brackets the least and the most."""
    if result is None:
        return "–"
    if result.figure is None:
        return "failed"
    shown = result.figure
    mark = f" {DISTURBED}" if result.is_disturbed else ""
    least, most = number(shown.least), number(shown.most)
    spread = f" ({least}–{most})" if len(result.by_round) > 1 else ""
    return f"{number(shown.median)}{spread}{mark}"


def _strength(title: str, rows: list[Row], each: dict[str, dict[str, Result]]) -> float:
    """Return what a line is sorted by: the mean of its figures."""
    found = [each[row.column].get(title) for row in rows]
    figures = [one.figure.median for one in found if one is not None and one.figure is not None]
    return statistics.geometric_mean(figures) if figures and min(figures) > 0 else 0.0


def _marks(side: Side, mode: Mode, rows: list[Row], notes: dict[str, str]) -> str:
    """Return the marks of a mode that does these works only nearly; their sentences go into `notes`."""
    marks = []
    for work in dict.fromkeys(row.work for row in rows):
        reason = side.cannot.get(work)
        if reason is not None and work in mode.works:
            sentence = f"{side.title}: {reason}"
            marks.append(notes.setdefault(sentence, f"[{len(notes) + 1}]"))
    return f" {' '.join(marks)}" if marks else ""


def _cpu(result: Result | None) -> str:
    return "–" if result is None or result.cpu_s is None else number(result.cpu_s)


def _others(found: Iterable[Result]) -> str:
    shares = [share for one in found for share in one.others]
    if not shares:
        return ""
    above = sum(share > OTHERS_SHARE_MAX for share in shares)
    median, most = statistics.median(shares), max(shares)
    text = f"Programs outside the benchmark took {median:.0%} of the CPU in the median, and up to {most:.0%}"
    marked = f"; {DISTURBED} marks figures with more than {OTHERS_SHARE_MAX:.0%}" if above else ""
    return f"{text}{marked}."


def cannot_table(sides: list[Side], all_rows: list[Row]) -> str:
    """Return who cannot do which work at all, and why."""
    workloads: dict[str, list[str]] = {}
    for row in all_rows:
        names = workloads.setdefault(row.work, [])
        if row.workload not in names:
            names.append(row.workload)
    lines = ["| | work | reason | nearest mode |", "|---|---|---|---|"]
    for side in sides:
        for work, reason in side.cannot.items():
            nearest = side.modes_for(work)
            shown = nearest[0].title if nearest else "not measured"
            lines.append(
                f"| {side.title} | {', '.join(workloads.get(work, [work]))} {work} | {reason} | {shown} |"
            )
    return "\n".join(lines)


def modes_table(sides: list[Side]) -> str:
    """Return what is compared: each mode, its version, its order, and the settings' source."""
    lines = ["| | version | order | what it is | settings |", "|---|---|---|---|---|"]
    for side in sides:
        program = f"[{side.program.name}](../../scripts/peers/sides/{side.program.name})"
        for mode in side.modes:
            link = f"{program}, [documentation]({side.site})" if side.site else program
            cells = (mode.title, side.version or "–", ORDER[mode.order], mode.note or "–", link)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
