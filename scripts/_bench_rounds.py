"""Runs rows round by round: the sides of each in turn, once more where others disturbed them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from _bench_cpu import OTHERS_SHARE_MAX
from _bench_side import MeasurementFailedError, Setting, run_side
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _bench_row import Row, Side
    from rich.console import Console

Figures = dict[str, dict[str, list[dict[str, Any]]]]
# Longer measurements are not repeated: that would be hours.
REPEATED_S_MAX = 150.0


class Rounds:
    """Measures rows so many times, the sides of each in turn, and shows how far it is."""

    def __init__(self, setting: Setting, rounds: int, repeats: int, console: Console) -> None:
        self._setting, self._rounds, self._repeats, self._console = setting, rounds, repeats, console
        # What rows share in a round, by the side.
        self._shared: dict[tuple[int, str], dict[str, Any]] = {}

    def measure(self, chosen: list[Row]) -> tuple[Figures, str | None]:
        """Return the figures by row and side.

        A side that fails ends it: its words come with what was measured until then.
        """
        figures: Figures = {row.work: {name: [] for name, _ in row.sides} for row in chosen}
        # Round -1 warms up and does not count.
        runs = [
            (number, row, sides)
            for number in range(-1, self._rounds)
            for row in chosen
            if number >= 0 or row.warm_up
            for _ in range(row.windows if number >= 0 else 1)
            for sides in ([row.sides] if row.together else ([side] for side in row.sides))
        ]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task("starting", total=len(runs))
            for done, (number, row, sides) in enumerate(runs):
                at = "warm-up" if number < 0 else f"round {number + 1} of {self._rounds}"
                what = f"{at}: {row.work} ({' and '.join(name for name, _ in sides)})"
                progress.update(task, description=what)
                if not self._console.is_terminal:  # there a bar is drawn only at the end
                    self._console.print(f"{done + 1} of {len(runs)}, {what}", highlight=False, soft_wrap=True)
                try:
                    measured = self._measure(number, row, [side for _, side in sides])
                except MeasurementFailedError as error:
                    return figures, f"{what}: {error}"
                for (name, _), figure in zip(sides, measured, strict=True):
                    if number >= 0:
                        figures[row.work][name].append(figure)
                progress.advance(task)
        return figures, None

    def _measure(self, number: int, row: Row, sides: list[Side]) -> list[dict[str, Any]]:
        """Measure once, or again while others disturb it; what another row has measured is taken."""
        names = [(number, repr(side)) for side in sides]
        if row.shared and all(name in self._shared for name in names):
            return [self._shared[name] for name in names]
        best = self._measure_at_once(sides)
        for _ in range(self._repeats if number >= 0 else 0):
            if _disturbed(best) <= OTHERS_SHARE_MAX or max(one["took_s"] for one in best) > REPEATED_S_MAX:
                break
            self._console.print(f"Once more: others took {_disturbed(best):.0%} of the CPU.", highlight=False)
            best = min(best, self._measure_at_once(sides), key=_disturbed)
        if row.shared:
            self._shared |= dict(zip(names, best, strict=True))
        return best

    def _measure_at_once(self, sides: Iterable[Side]) -> list[dict[str, Any]]:
        chosen = list(sides)
        with ThreadPoolExecutor(len(chosen)) as pool:
            return list(pool.map(lambda side: run_side(self._setting, side), chosen))


def _disturbed(measured: list[dict[str, Any]]) -> float:
    """Return the largest share of the CPU that others took."""
    return max(float(one.get("others_share", 0.0)) for one in measured)


def whole_rounds(row: Row, sides: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rounds in which each side has all of its windows, of which the middle one counts."""
    rounds = min(map(len, sides.values())) // row.windows
    return {name: _middles(row, each, rounds) for name, each in sides.items()} if rounds else {}


def _middles(row: Row, windows: list[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    in_turn = [windows[number * row.windows : (number + 1) * row.windows] for number in range(rounds)]
    return [sorted(each, key=lambda one: one[row.figure])[row.windows // 2] for each in in_turn]
