"""What a run says of a side at a work: medians and spreads, ratios of one round, and what others took."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _bench_cpu import OTHERS_SHARE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peers.plan import Row
    from peers.raw import Run


@dataclass(frozen=True)
class Spread:
    """The median, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return that of some values."""
        each = list(values)
        return cls(statistics.median(each), min(each), max(each))


@dataclass(frozen=True)
class Result:
    """One mode at one row."""

    mode: str
    side: str
    figure: Spread | None
    # By round, for ratios of one round.
    by_round: dict[int, float]
    cpu_s: float | None
    others: tuple[float, ...]
    # Why there is no figure, or why not of all rounds.
    failed: str = ""

    @property
    def is_disturbed(self) -> bool:
        """Whether others took too much of the CPU in a measurement, its repetition included."""
        return any(share > OTHERS_SHARE_MAX for share in self.others)


def results(run: Run, row: Row) -> list[Result]:
    """Return a row's results, the best one first and those that failed last."""
    found = [_result(mode, each, row) for mode, each in run.of(row.name).items()]
    whole = [one for one in found if one.figure is not None]
    whole.sort(key=lambda one: one.figure.median if one.figure else 0.0, reverse=not row.less_is_better)
    return whole + [one for one in found if one.figure is None]


def ratio(of: Result, to: Result) -> Spread | None:
    """Return the ratios of two results round by round; None where they share no round."""
    shared = [number for number in of.by_round if to.by_round.get(number)]
    return Spread.of(of.by_round[number] / to.by_round[number] for number in shared) if shared else None


def best(found: list[Result], modes: Iterable[str]) -> Result | None:
    """Return the best of these modes."""
    wanted = set(modes)
    return next((one for one in found if one.mode in wanted and one.figure is not None), None)


def number(value: float) -> str:
    """Return a number with about three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _result(mode: str, each: list[dict[str, Any]], row: Row) -> Result:
    whole = [one for one in each if one.get(row.figure) is not None]
    cpu = [one["cpu_s_per_million"] for one in whole if one.get("cpu_s_per_million")]
    failed = next((one["failed"] for one in each if "failed" in one), "")
    return Result(
        mode,
        each[0]["side"],
        Spread.of(one[row.figure] for one in whole) if whole else None,
        {one["round"]: one[row.figure] for one in whole},
        statistics.median(cpu) if cpu else None,
        tuple(one["others_share"] for one in whole if "others_share" in one),
        failed or ("" if whole else "the measurement gave no figure"),
    )
