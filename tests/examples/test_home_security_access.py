"""The home-security pages on a phone, by keyboard, with a screen reader, in light and dark, in Chromium."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from home_pipeline.page.pipeline import Asked
from home_pipeline.page.server import STATIC

from tests.examples.home_pages import HOME, answered, furnished
from tests.kit.page_shown import CONTRAST

if TYPE_CHECKING:
    from tests.examples.home_pages import Town


@pytest.mark.parametrize("path", ["/", f"/home/{HOME}"])
def test_a_phone_shows_it_without_scrolling_sideways(town: Town, path: str) -> None:
    """360 pixels wide, with alarms, long names, silent sensors and the search's answer."""
    furnished(town)
    page = town.browser
    page.set_viewport_size({"width": 360, "height": 740})
    town.open(path)
    page.wait_for_selector("#latest li")
    if path == "/":
        page.fill("#wanted", "x" * 40)
        page.press("#wanted", "Enter")
        page.wait_for_selector("#found-words:visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_keyboard_reaches_everything_that_can_be_done(town: Town) -> None:
    """Tab by Tab, with a visible focus; after an alarm is acknowledged the focus stays in its row."""
    furnished(town)
    page = town.open("/")
    page.wait_for_selector("#latest button:not([disabled])")
    page.wait_for_selector("#sell:not([disabled])")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
        if reached[-1] == "BODY":
            break
    assert "none" not in {one.split()[-1] for one in reached if one != "BODY"}
    names = [one.split()[0] for one in reached]
    for wanted in ("wanted", "Find", "hours", "kind", "state", "latest", "Acknowledge", "sell", "second"):
        assert wanted in names, wanted
    page.locator("#latest button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#latest > li:first-child .done:has-text('Acknowledged')")
    assert page.evaluate("document.activeElement === document.querySelector('#latest > li')")


FOCUSED = """() => {
  const one = document.activeElement;
  if (one === document.body) return "BODY";
  return `${one.id || one.textContent.split(" ")[0]} ${getComputedStyle(one).outlineStyle}`;
}"""


def test_a_screen_reader_hears_a_state_when_it_changes_and_not_again(town: Town) -> None:
    """The live region is written once for a state; answers that say the same leave it alone."""
    town.speaks(but={})
    page = town.open()
    assert page.get_by_role("status").filter(has_text="All quiet").count() == 1
    page.evaluate(
        "window.heard = 0; new MutationObserver((all) => { window.heard += all.length; })"
        ".observe(document.querySelector('.now'), { subtree: true, childList: true, characterData: true })"
    )
    for _ in range(2):
        with answered(page, "/api/home"):
            pass
    assert page.evaluate("window.heard") == 0
    town.says("door_front", 1.0, 0)
    page.wait_for_selector("#state.open")
    assert page.evaluate("window.heard") > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_can_be_read_in_light_and_dark(town: Town, scheme: str) -> None:
    """The contrast of what tells a state is at least 4.5."""
    furnished(town)
    page = town.browser
    page.emulate_media(color_scheme=scheme)
    seen = {
        "/": (
            "#rate-note",
            "#engine",
            "#latest b",
            "#latest button",
            "#partitions b",
            "#partitions span",
            "#sell",
            "#fresh",
        ),
        f"/home/{HOME}": ("#state", "#facts li", ".switch .state", ".note", "h3", "#fresh", "#latest button"),
        "/home/home-000034": (".switch .state.open", ".switch .state.silent", "#state"),
    }
    with mock.patch.object(town.pipeline, "_asked", Asked({0: 1}, {0: "one"}, time.time(), None)):
        for path, selectors in seen.items():
            town.open(path)
            page.wait_for_selector("#partitions b" if path == "/" else ".switch .state")
            for selector in selectors:
                page.wait_for_selector(selector)
                assert page.evaluate(CONTRAST, selector) >= 4.5, (scheme, path, selector)


def test_nothing_becomes_html_and_nothing_is_inline() -> None:
    """Data reach the document as text alone, and the policy needs no exception."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://"
    for path in STATIC.iterdir():
        if path.suffix in {".js", ".html", ".css"}:
            text = path.read_text().replace("http://www.w3.org/2000/svg", "")
            assert re.findall(forbidden, text) == [], path.name
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text), path.name
