"""Where ehkafka stands: its best mode compared with the limit, hand-written programs and other libraries.

Nothing here names a figure: sentences come from a run's ratios, so they cannot grow old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from peers.figures import Result, Spread, best, number, ratio, results
from peers.reasons import BY_HAND, LIBRARY

if TYPE_CHECKING:
    from peers.catalogue import Side
    from peers.plan import Row
    from peers.raw import Run

ORDERS = {"key": "", "partition": ", order per partition", "none": ", no order"}
# A ratio beyond it counts as behind.
EQUAL = 0.95


@dataclass(frozen=True)
class Comparison:
    """Ehkafka's best mode at a row, and another's best."""

    row: Row
    ours: Result
    other: Result
    # Of which more is better for us, for a latency too.
    ratio: Spread
    # "hand" or "library".
    kind: str
    order: str = "key"

    @property
    def other_name(self) -> str:
        """Return the other's name, and its order where that is less than the order of each key."""
        return f"{self.other.mode}{ORDERS[self.order]}"

    @property
    def is_behind(self) -> bool:
        """Whether ehkafka is behind."""
        return self.ratio.median < EQUAL


def comparisons(run: Run, all_rows: list[Row], sides: list[Side]) -> list[Comparison]:
    """Return those of each row: against the best by hand, the limit included, and the best library."""
    kinds, orders = kinds_of(sides), {mode.title: mode.order for side in sides for mode in side.modes}
    found = []
    for row in all_rows:
        each = [one for one in results(run, row) if one.mode in kinds]
        ours = best(each, (mode for mode, kind in kinds.items() if kind == "ours"))
        for kind in ("hand", "library"):
            other = best(each, (mode for mode, its_kind in kinds.items() if its_kind == kind))
            if ours is None or other is None:
                continue
            ratios = ratio(other, ours) if row.less_is_better else ratio(ours, other)
            if ratios is not None:
                found.append(Comparison(row, ours, other, ratios, kind, orders[other.mode]))
    return found


def kinds_of(sides: list[Side]) -> dict[str, str]:
    """Return of each mode whether it is "ours", by "hand", or a "library"'s."""
    return {
        mode.title: "ours" if side.checkout else "hand" if mode.by_hand else "library"
        for side in sides
        for mode in side.modes
    }


def short_table(found: list[Comparison]) -> str:
    """Return one line for each row: the two ratios."""
    lines = [
        "| work | ehkafka's best | ÷ the best hand-written program | ÷ the best library |",
        "|---|---|---|---|",
    ]
    by_row: dict[str, dict[str, Comparison]] = {}
    for one in found:
        by_row.setdefault(one.row.name, {})[one.kind] = one
    for name, kinds in by_row.items():
        ours = next(iter(kinds.values())).ours.mode
        cells = [_cell(kinds.get(kind)) for kind in ("hand", "library")]
        lines.append(f"| {name} | {ours} | {' | '.join(cells)} |")
    return "\n".join(lines)


def behind(found: list[Comparison]) -> str:
    """Return a sentence for each place where ehkafka is behind, by workload and what it is compared with."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in found:
        if one.is_behind:
            groups.setdefault((one.row.workload, one.kind), []).append(one)
    if not groups:
        return "In this run, ehkafka is behind at no work."
    return "\n".join(_sentence(kind, each) for kind, each in groups.items())


def _sentence(kind: tuple[str, str], each: list[Comparison]) -> str:
    where = "; ".join(f"{_place(one)}: {_ratio(one.ratio)} of {one.other_name}{_cpu(one)}" for one in each)
    reasons = BY_HAND if kind[1] == "hand" else LIBRARY
    return f"- **{kind[0]}**, {where}. {reasons[kind[0]]}"


def _place(one: Comparison) -> str:
    """Return the work without its number, which stands before."""
    return f"{one.row.table.removeprefix(one.row.workload).strip()}, {one.row.column}"


def _cpu(one: Comparison) -> str:
    if one.ours.cpu_s is None or one.other.cpu_s is None:
        return ""
    return f" (CPU s per million: {number(one.ours.cpu_s)} against {number(one.other.cpu_s)})"


def _cell(one: Comparison | None) -> str:
    if one is None:
        return "–"
    shown = _ratio(one.ratio)
    return f"{f'**{shown}**' if one.is_behind else shown} of {one.other_name}"


def _ratio(spread: Spread) -> str:
    text = f"{spread.median:.2f}"
    return text if spread.least == spread.most else f"{text} ({spread.least:.2f}–{spread.most:.2f})"
