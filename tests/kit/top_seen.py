"""`ehkafka top` as a person sees it, read back: its widgets as text. Used inside textual's event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from textual.widgets import DataTable, Static

from ehkafka.cli.top.ask import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.cli.top.screen import Top
    from tests.kit.http_double import HttpDouble

WAIT_S = 15.0


class Seen:
    """The screen, and what is on it as text."""

    def __init__(self, app: Top, pilot: Any, double: HttpDouble | None = None) -> None:
        self.app = app
        self.pilot = pilot
        # What it shows, where that is no real app.
        self._double = double

    @property
    def double(self) -> HttpDouble:
        """Return the double that answers."""
        assert self._double is not None
        return self._double

    def text(self, selector: str) -> str:
        """Return what a widget says."""
        return str(self.app.screen.query_one(selector, Static).content)

    def rows(self, name: str) -> list[list[str]]:
        """Return a table's cells."""
        table = self.app.query_one(f"#{name}-rows", DataTable)
        return [[str(cell) for cell in table.get_row_at(n)] for n in range(table.row_count)]

    async def until(self, true: Callable[[], Any]) -> None:
        """Let the app go on until that is so."""
        ends_s = asyncio.get_running_loop().time() + WAIT_S
        while not true():
            assert asyncio.get_running_loop().time() < ends_s, (
                self.rows("keys"),
                self.text("#broken"),
                self.text("#head"),
            )
            await self.pilot.pause(0.02)

    async def asked(self, *keys: str) -> None:
        """Press keys and wait until the dialog has its answer."""
        await self.pilot.press(*keys)
        await self.until(lambda: isinstance(self.app.screen, Ask))
        await self.until(
            lambda: not self.text("#dialog-text").startswith(("Asking", "\n")) and self.text("#dialog-text")
        )

    async def confirmed(self) -> None:
        """Press the dialog's button and wait until it is gone."""
        await self.pilot.click("#dialog-confirm")
        await self.until(lambda: not isinstance(self.app.screen, Ask))

    def notices(self) -> str:
        """Return what was notified."""
        return " ".join(one.message for one in self.app._notifications)
