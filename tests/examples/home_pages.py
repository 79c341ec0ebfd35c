"""The home-security page's real server and pages over rows of a test: no broker, no store, no process.

Made by a test on its thread; the server has a thread of its own.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from home_pipeline import layout, rules
from home_pipeline.page.pipeline import Pipeline
from home_pipeline.page.server import Page, make_page
from home_pipeline.readings import Reading
from home_pipeline.stage import STATUS
from home_pipeline.table import Table

from ehkafka.http.options import Http
from ehkafka.http.server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "a-token-of-tests"
HOME = "home-000033"
KEEP_S, SILENT_S = 86_400, 300.0
UNITS = {"temperature": "°C", "smoke": "%", "carbon_monoxide": "ppm"}
QUIET = {"door_front": 0.0, "window_kitchen": 0.0, "motion": 0.0, "temperature": 20.5, "smoke": 1.0}
RUNNING: dict[str, Any] = {
    "engine": "local",
    "state": "running",
    "since_s": 1_790_000_000.0,
    "step": None,
    "restarts": 0,
    "done": [],
    "members": {},
}


class Town:
    """The page's server over a table; `says` adds readings, `open` looks at a page."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser = browser
        self.folder = folder
        self.now_s = time.time()
        self.readings: list[Reading] = []
        self.table = Table(keep_s=KEEP_S, silent_s=SILENT_S, folder=folder)
        self.pipeline = Pipeline(folder, None)
        self._server = HttpServer(Http(address="127.0.0.1:0"))
        self.url = self._server.url
        follower: Any = SimpleNamespace(problem=None)
        page = Page(self.table, follower, self.pipeline, TOKEN, late_s=600.0)
        self._server.start(make_page(page, follower, self.pipeline))

    def says(
        self, kind: str, value: float, ago_s: float, *, home: str = HOME, alarm: bool = False
    ) -> Reading:
        """Add a reading, as a blob of its own."""
        at_us = int((self.now_s - ago_s) * 1_000_000)
        reading = Reading(home, kind, UNITS.get(kind, ""), at_us, value, alarm=alarm)
        self.says_all([reading])
        return reading

    def says_all(self, readings: list[Reading], partition: str | None = "") -> None:
        """Add readings as one blob."""
        self.readings += readings
        self.table.add(layout.rows_of(readings, rules.Windows()), partition)

    def speaks(self, for_s: float = 1_200, *, but: dict[str, Callable[[float], float | None]]) -> None:
        """Let all sensors of the home speak twice a minute; `but` says what some of them say so long ago."""
        found = []
        for kind, usual in QUIET.items():
            for n in range(int(for_s // 30)):
                ago_s = for_s - 30 * n - 20
                value = but[kind](ago_s) if kind in but else usual
                if value is not None:
                    at_us = int((self.now_s - ago_s) * 1_000_000)
                    found.append(Reading(HOME, kind, UNITS.get(kind, ""), at_us, float(value), alarm=False))
        self.says_all(found)

    def open(self, path: str = f"/home/{HOME}", *, has_token: bool = True) -> Any:
        """Open a page and wait for its first answer."""
        self.browser.goto(self.url + path + (f"#token={TOKEN}" if has_token else ""))
        self.browser.wait_for_selector("#fresh:has-text('As of')")
        return self.browser

    def begins(self, kind: str, value: float) -> int:
        """Return the minute of the first reading of the last run of a value."""
        said = sorted((one for one in self.readings if one.kind == kind), key=lambda one: one.at_us)
        other = max((n for n, one in enumerate(said) if one.value != value), default=-1)
        return said[other + 1].at_us // 60_000_000 * 60

    def status(self, **other: Any) -> None:
        """Write how the engine is, as the demo does."""
        (self.folder / STATUS).write_text(json.dumps(RUNNING | other))

    def close(self) -> None:
        """An open page would go on asking."""
        self.browser.goto("about:blank")
        self._server.stop()
        self.table.close()


@contextmanager
def answered(page: Any, path: str) -> Iterator[None]:
    """Wait, at the end of the block, for an answer that was asked for in it."""
    with page.expect_response(lambda one: path in one.url):
        yield


def furnished(town: Town) -> None:
    """Let the town have some of everything."""
    town.speaks(but={"door_front": lambda ago_s: ago_s < 700})
    for number in range(30, 60):
        town.says("motion", 0.0, 400 + number, home=f"home-{number:06d}")
    town.says("door_front", 1.0, 5, home="home-000034")
    town.says("window_bedroom", 1.0, 900, home="home-000034")
    for ago_s in (200, 100):
        town.says("carbon_monoxide", 80.25, ago_s, alarm=True)
    town.status()
