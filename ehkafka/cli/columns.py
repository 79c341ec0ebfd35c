"""Rows as aligned columns, the same for a terminal and a pipe. Pure; escapes what steers a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from ehkafka.checks import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE = "–"
_GAP = "  "


def columns(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return the rows below their headers; numbers to the right, None as a dash.

    A character may be two columns of a terminal wide, or none.
    """
    texts = [[_text(value) for value in row] for row in rows]
    widths = [
        max([len(header), *(cell_len(row[number]) for row in texts)]) for number, header in enumerate(headers)
    ]
    rights = [
        bool(rows) and all(value is None or isinstance(value, int) for value in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(headers)
    return "\n".join(_line(row, widths, rights) for row in [list(headers), *texts])


def _text(value: object) -> str:
    return NONE if value is None else printable(str(value))


def _line(texts: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    cells = []
    for text, width, right in zip(texts, widths, rights, strict=True):
        blank = " " * (width - cell_len(text))
        cells.append(f"{blank}{text}" if right else f"{text}{blank}")
    return _GAP.join(cells).rstrip()
