"""Draws what the benchmark measured: ratios, CPU seconds per million records, and what others took."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from _bench_cpu import OTHERS_SHARE_MAX
from _bench_ratios import cpu_s, others, ratios
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path

    from _bench_row import Row
    from matplotlib.axes import Axes

OURS, LIMIT, DISTURBED = "#3b6ea5", "#999999", "#c8762b"


def plot(measured: list[tuple[Row, dict[str, Any]]], path: Path, shown: str) -> None:
    """Write one row of bars for each row of the table."""
    figure = Figure(figsize=(14, 1.4 + 0.5 * len(measured)), layout="constrained")
    ratio_axes, cpu_axes, others_axes = figure.subplots(1, 3, sharey=True, width_ratios=(5, 3, 2))
    upwards = measured[::-1]
    names = [row.work for row, _ in upwards]
    _plot_ratios(ratio_axes, names, upwards)
    _plot_cpu(cpu_axes, names, upwards)
    _plot_others(others_axes, names, upwards)
    figure.suptitle(shown, fontsize=7)
    figure.savefig(path)


def _plot_ratios(axes: Axes, names: list[str], measured: list[tuple[Row, dict[str, Any]]]) -> None:
    each = [ratios(row, sides) for row, sides in measured]
    middles = [statistics.median(values) for values in each]
    spread = [
        [middle - min(values) for middle, values in zip(middles, each, strict=True)],
        [max(values) - middle for middle, values in zip(middles, each, strict=True)],
    ]
    colors = [_color(sides) for _, sides in measured]
    axes.barh(names, middles, xerr=spread, color=colors, ecolor="#222222", capsize=3)
    axes.axvline(1.0, color="#888888", linewidth=1, linestyle="--")
    axes.set_xlabel(
        "ehkafka ÷ limit (median, least–most); less is better for latencies and bytes", fontsize=8
    )


def _plot_cpu(axes: Axes, names: list[str], measured: list[tuple[Row, dict[str, Any]]]) -> None:
    """From a second to hours: by the logarithm, as points."""
    both = [cpu_s(row, sides) for row, sides in measured]
    for place, color, label in ((1, LIMIT, "limit"), (0, OURS, "ehkafka")):
        known = [(name, one[place]) for name, one in zip(names, both, strict=True) if one[place]]
        axes.plot([one for _, one in known], [name for name, _ in known], "o", color=color, label=label)
    if any(one for pair in both for one in pair):
        axes.set_xscale("log")
        axes.legend(fontsize=7)
    axes.grid(axis="x", color="#dddddd")
    axes.set_xlabel("CPU seconds per million records", fontsize=8)


def _plot_others(axes: Axes, names: list[str], measured: list[tuple[Row, dict[str, Any]]]) -> None:
    most = [100 * max(others(sides), default=0.0) for _, sides in measured]
    axes.barh(names, most, color=[_color(sides) for _, sides in measured])
    axes.axvline(100 * OTHERS_SHARE_MAX, color="#888888", linewidth=1, linestyle="--")
    axes.set_xlabel("% of the CPU that others took, at most", fontsize=8)


def _color(sides: dict[str, Any]) -> str:
    return DISTURBED if max(others(sides), default=0.0) > OTHERS_SHARE_MAX else OURS
