"""One picture for each table: bars for each number of it, with least and most; read in light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from peers.figures import Result, number, results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peers.plan import Row
    from peers.raw import Run

WIDTH, LABEL, BAR, NUMBER = 860, 230, 450, 160
LINE, TITLE, MARGIN = 22, 34, 16
FONTS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    f'aria-labelledby="t d" font-family="{FONTS}" font-size="13">'
)
STYLE = """\
    .page { fill: #ffffff; stroke: #d0d7de; }
    .ours { fill: #2f6fb0; }
    .hand { fill: #8c959f; }
    .library { fill: #d4a72c; }
    .spread { stroke: #1f2328; stroke-width: 1.5; }
    text { fill: #1f2328; }
    .head { font-weight: 600; }
    .right { text-anchor: end; }
    .small { fill: #424a53; font-size: 12px; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #30363d; }
      .ours { fill: #58a6ff; }
      .hand { fill: #6e7681; }
      .library { fill: #bb8009; }
      .spread { stroke: #e6edf3; }
      text { fill: #e6edf3; }
      .small { fill: #9ea7b3; }
    }
"""


def picture(run: Run, rows: list[Row], kinds: Mapping[str, str]) -> str:
    """Return an SVG of a table's rows; `kinds` says of each mode which colour it has."""
    blocks = [(row, [one for one in results(run, row) if one.figure is not None]) for row in rows]
    height = MARGIN * 2 + TITLE + sum(TITLE + LINE * len(found) for _, found in blocks)
    parts, at = [_text(MARGIN, MARGIN + 18, rows[0].table, "head")], MARGIN + TITLE
    unit = "less is better" if rows[0].less_is_better else "records per second"
    parts.append(_text(WIDTH - MARGIN, MARGIN + 18, f"{unit}; the line shows least to most", "small right"))
    for row, found in blocks:
        parts.append(_text(MARGIN, at + 20, row.column, "head"))
        at += TITLE
        longest = max((one.figure.most for one in found if one.figure), default=1.0)
        for one in found:
            parts += _bar(one, kinds.get(one.mode, "library"), at, longest)
            at += LINE
    described = "; ".join(_words(row, found) for row, found in blocks)
    return "\n".join(
        [
            HEAD.format(width=WIDTH, height=height),
            f'  <title id="t">{escape(rows[0].table)}</title>',
            f'  <desc id="d">{escape(described)}.</desc>',
            f"  <style>\n{STYLE}  </style>",
            f'  <rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
            *(f"  {part}" for part in parts),
            "</svg>\n",
        ]
    )


def _bar(one: Result, kind: str, at: float, longest: float) -> list[str]:
    assert one.figure is not None
    start, middle = MARGIN + LABEL, at + LINE / 2

    def place(value: float) -> float:
        return round(start + BAR * value / longest, 1)

    bar_width = max(1.0, round(place(one.figure.median) - start, 1))
    least, most = place(one.figure.least), place(one.figure.most)
    return [
        _text(start - 8, middle + 5, one.mode, "right"),
        f'<rect class="{kind}" x="{start}" y="{at + 3:g}" width="{bar_width:g}" height="{LINE - 6}" rx="2"/>',
        f'<path class="spread" d="M{least:g} {middle:g}H{most:g}"/>',
        _text(max(most, start + bar_width) + 8, middle + 5, number(one.figure.median), "small"),
    ]


def _words(row: Row, found: list[Result]) -> str:
    figures = ", ".join(f"{one.mode} {number(one.figure.median)}" for one in found if one.figure)
    return f"{row.column}: {figures or 'nothing measured'}"


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'
