"""The home-security page as a person sees it in a browser, read back, so that it can be compared.

Needs Playwright; `page` is one of its pages. Called by tests on their thread.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from home_pipeline import check

from ehkafka.testing.ports import free_ports

if TYPE_CHECKING:
    from home_pipeline.stage import Stage

KEEP_S = 86_400
"""Longer than any reading of a test is old, so that all are shown, and as the present."""
NAMES = ("count", "alarms", "total", "lowest", "highest", "last")


def serve(stage: Stage, readings: int | None, *options: str, within_s: float = 60.0) -> str:
    """Start the page's server, wait until it has so many readings (None: until it answers); return where."""
    [port] = free_ports(1)
    kept = ["--keep-s", str(KEEP_S), "--late-s", str(KEEP_S)]
    stage.start("page", "page.server", "--port", str(port), *kept, *options)
    address, found = f"127.0.0.1:{port}", -1
    deadline_s = time.monotonic() + within_s
    while found < 0 if readings is None else found != readings:
        failed = [*stage.failed()]
        if failed or time.monotonic() > deadline_s:
            raise AssertionError(failed or f"the page has {found} readings, {readings} are in the ledger")
        time.sleep(0.1)
        try:
            found = check.ask(address, "/api/overview")["readings"]
        except OSError:
            continue
    return address


def clock(at_s: float, pattern: str = "%H:%M") -> str:
    """Return a time as the page writes it: of another day with the day."""
    then = time.localtime(at_s)
    is_today = time.strftime("%x", then) == time.strftime("%x")
    return time.strftime(pattern if is_today else f"%a {pattern}", then)


def facts(page: Any) -> list[str]:
    """Return a home's headline and what stands below it."""
    return [page.inner_text("#state"), *page.locator("#facts li").all_inner_texts()]


def rows(page: Any, selector: str) -> list[str]:
    """Return the rows of a list, each as one line."""
    return [" ".join(text.split()) for text in page.locator(f"{selector} > li").all_inner_texts()]


def band(page: Any, kind: str) -> dict[int, str]:
    """Return what a switch's band draws of each minute: `on`, `off`, or `gap`."""
    minutes, off, on = page.eval_on_selector(
        f'.switch[data-kind="{kind}"]', "one => one.chart.plot.data.map((values) => [...values])"
    )
    drawn = zip(minutes, off, on, strict=True)
    return {int(at_s): "on" if is_on else "off" if is_off else "gap" for at_s, is_off, is_on in drawn}


def tile(page: Any, name: str) -> int:
    """Return the number on a tile."""
    return number_of(page.inner_text(f'[data-number="{name}"]'))


def kinds(page: Any) -> dict[str, int]:
    """Return how many readings the legend has of each kind of sensor."""
    shown = page.eval_on_selector_all(
        "#legend [data-kind]", "all => all.map(one => [one.dataset.kind, one.dataset.readings])"
    )
    return {kind: int(readings) for kind, readings in shown}


def sensors(page: Any) -> dict[str, dict[str, float]]:
    """Return what a home's cards carry; the count as a person reads it must be the same."""
    found = page.eval_on_selector_all(
        ".sensor",
        "all => all.map(one => ({...one.dataset, read: one.querySelector('[data-number]').textContent}))",
    )
    unlike = [one for one in found if number_of(one["read"]) != int(one["count"])]
    if unlike:
        raise AssertionError(f"a card's count is not what it carries: {unlike}")
    return {one["kind"]: {name: float(one[name]) for name in NAMES} for one in found}


def expected(readings: list[Any]) -> dict[str, dict[str, float]]:
    """Return what the cards must carry of these readings of a home."""
    kinds = {reading.kind for reading in readings}
    return {kind: _expected([one for one in readings if one.kind == kind]) for kind in kinds}


def _expected(readings: list[Any]) -> dict[str, float]:
    values = [reading.value for reading in readings]
    return {
        "count": len(readings),
        "alarms": sum(reading.alarm for reading in readings),
        "total": sum(values),
        "lowest": min(values),
        "highest": max(values),
        "last": max(readings, key=lambda reading: reading.at_us).value,
    }


def number_of(text: str) -> int:
    """Read a number as the page writes it."""
    return int(re.sub(r"[^0-9]", "", text))
