"""The tables of `ehkafka top`: rows keep their place, and the cursor its row, while numbers change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.containers import Vertical
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Sparkline, Static

from ehkafka.cli.top.rows import cut, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import JustifyMethod
    from textual.app import ComposeResult

    from ehkafka.cli.top.rows import Row


class Rows(DataTable[Text]):
    """A table that is given all its rows each time, and draws what has changed."""

    def __init__(self, columns: Mapping[str, str], name: str) -> None:
        """`columns` are their kinds by their names."""
        super().__init__(id=f"{name}-rows", cursor_type="row", zebra_stripes=False)
        self._columns = columns
        self._shown: list[Row] = []

    def on_mount(self) -> None:
        """Make the columns."""
        for column in self._columns:
            self.add_column(Text(column.upper(), justify=self._justify(column)), key=column)

    def _justify(self, column: str) -> JustifyMethod:
        return "left" if self._columns[column] in ("text", "moment") else "right"

    def _cells(self, row: Row) -> list[Text]:
        # No markup is read out of a `Text`.
        style = "bold" if row.is_urgent else ""
        return [
            Text(cell, style=style, justify=self._justify(column), no_wrap=True)
            for column, cell in zip(self._columns, row.cells, strict=True)
        ]

    @property
    def chosen(self) -> str | None:
        """The name of the row under the cursor."""
        return self._shown[self.cursor_row].name if 0 <= self.cursor_row < len(self._shown) else None

    def show(self, rows: Sequence[Row]) -> None:
        """Draw these."""
        if [row.name for row in rows] != [row.name for row in self._shown]:
            self._draw_all(rows)
            return
        for n, (row, old) in enumerate(zip(rows, self._shown, strict=True)):
            if row == old:
                continue
            for column, cell in enumerate(self._cells(row)):
                self.update_cell_at(Coordinate(n, column), cell, update_width=True)
        self._shown = list(rows)

    def _draw_all(self, rows: Sequence[Row]) -> None:
        chosen, place = self.chosen, self.cursor_row
        self.clear()
        for row in rows:
            self.add_row(*self._cells(row))
        self._shown = list(rows)
        names = [row.name for row in rows]
        if names:
            self.move_cursor(
                row=names.index(chosen) if chosen in names else min(max(place, 0), len(names) - 1)
            )


class Tile(Static):
    """A heading, a number and a note."""

    def show(self, tile: Mapping[str, Any]) -> None:
        """Draw them."""
        text = Text(cut(tile["heading"]), style="dim", no_wrap=True, overflow="ellipsis")
        text.append(f"\n{text_of(tile['kind'], tile['value'])}\n", style="not dim bold")
        text.append(cut(tile["note"]), style="dim")
        self.update(text)


class Plot(Vertical):
    """The last hour of one number."""

    def __init__(self, heading: str, name: str) -> None:
        super().__init__(id=name, classes="spark")
        self._heading = heading

    def compose(self) -> ComposeResult:
        """Make the heading and the line."""
        yield Static(self._heading, markup=False, classes="spark-heading")
        yield Sparkline([])

    def show(self, numbers: Sequence[Any], unit: str) -> None:
        """Draw numbers, of which an unknown one is 0; its highest stands next to its heading."""
        known = [float(one or 0) for one in numbers]
        self.query_one(Sparkline).data = known
        most = f", max {max(known):,.0f}{unit}" if known else ""
        self.query_one(Static).update(f"{self._heading}{most}")
