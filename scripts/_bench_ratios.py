"""What the report tells of a row's figures: ratios by round, CPU seconds, what others took."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _bench_row import Row


def ratios(row: Row, sides: dict[str, list[dict[str, Any]]], name: str = "ours") -> list[float]:
    """Return that side ÷ its limit of each round."""
    limit = "other_limit" if name == "other" and row.other_limit is not None else "limit"
    return [one / other for one, other in zip(*figures(row, sides, name, limit), strict=True)]


def cpu_s(row: Row, sides: dict[str, list[dict[str, Any]]]) -> tuple[float | None, float | None]:
    """Return the median CPU seconds per million records of ours and of the limit; None where unknown."""
    limit = sides["ours" if row.limit is None else "limit"]
    return median(sides["ours"], row.cpu), median(limit, row.limit_cpu or row.cpu)


def others(sides: dict[str, list[dict[str, Any]]]) -> list[float]:
    """Return the share of the CPU that others took in each measurement of a row."""
    return [one["others_share"] for each in sides.values() for one in each if "others_share" in one]


def figures(
    row: Row, sides: dict[str, list[dict[str, Any]]], name: str = "ours", limit: str = "limit"
) -> tuple[list[float], list[float]]:
    """Return that side and the limit, round by round."""
    limits = sides["ours" if row.limit is None else limit]
    return [one[row.figure] for one in sides[name]], [one[row.limit_figure or row.figure] for one in limits]


def median(each: list[dict[str, Any]], name: str) -> float | None:
    """Return the median of what has that name; None where nothing has."""
    found = [one[name] for one in each if one.get(name) is not None]
    return statistics.median(found) if found else None
