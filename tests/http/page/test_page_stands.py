"""What the page stands: hostile texts, narrow windows, broken streams, other colours, in Chromium."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit import http_states as states
from tests.kit.page_shown import CONTRAST, text

if TYPE_CHECKING:
    from tests.kit.page_shown import Shown


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("make", ["poisoned", "hostile", "crowded"])
def test_no_state_makes_the_page_wider_than_its_window(
    shown: Shown, browser_page: Any, make: str, width: int
) -> None:
    """Long words break and tables scroll in their own box, on a phone too."""
    browser_page.set_viewport_size({"width": width, "height": 844})
    shown(getattr(states, make)())
    browser_page.wait_for_timeout(200)
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_comes_from_the_wire_is_text(shown: Shown, browser_page: Any) -> None:
    """No markup, no script, no hidden or turning character, no link that runs; long texts are cut."""
    double = shown(states.hostile())
    bad = states.HOSTILE
    letter = {"key": bad, "value": bad + states.CONTROLS, "headers": {bad: bad}, "error": bad, "origin": bad}
    double.letters = [{"partition": 0, "offset": 1, "at_s": 1.0} | letter]
    browser_page.click("#letters-show")
    browser_page.wait_for_selector("#letter-list li")
    browser_page.click("#other-keys summary")
    browser_page.locator("#cards .skip").click()
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    assert browser_page.locator("img:not([src='page/icon.svg']), script:not([src^='page/'])").count() == 0
    assert "owned" not in browser_page.title()
    hrefs = browser_page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))")
    assert [one for one in hrefs if not one.startswith("#")] == []
    whole = browser_page.evaluate("document.body.textContent")
    assert not re.search(
        "[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\ud800-\udfff]", whole
    )
    for escaped in ("\\u202e", "\\x00", "\\x1b[2J", "\\u200b", "\\u2028", "\\ud800"):
        assert escaped in whole
    assert max(map(len, browser_page.locator("bdi").all_inner_texts())) < 4_000


def test_a_broken_stream_is_a_notice_with_the_age(shown: Shown, browser_page: Any) -> None:
    """It tries again until the app answers, and then goes on as if nothing had been."""
    browser_page.expected_failures.append("ERR_")
    double = shown(states.healthy())
    port = double.stop()
    browser_page.wait_for_selector("#broken", state="visible", timeout=15_000)
    notice = text(browser_page, "#broken")
    assert notice.startswith("No connection to the app: ")
    assert re.search(r"This page is \d+(\.\d)? s old\.", notice)
    double.start(port)
    browser_page.wait_for_selector("#broken", state="hidden", timeout=15_000)


def test_a_server_without_room_for_a_stream_is_asked(shown: Shown, browser_page: Any) -> None:
    """The page goes on by asking every few seconds."""
    browser_page.expected_failures.append("503")
    double = shown(states.healthy(), streams_max=0)
    double.state = states.poisoned()
    browser_page.wait_for_selector("#cards .card", timeout=15_000)


def test_colours_follow_the_system(shown: Shown, browser_page: Any) -> None:
    """Light and dark, with words that stand out from their ground; nothing moves where that is not wanted."""
    browser_page.emulate_media(reduced_motion="reduce")
    shown(states.poisoned())
    for scheme in ("light", "dark"):
        browser_page.emulate_media(color_scheme=scheme)
        for selector in (
            ".note",
            ".card .error",
            ".badge",
            "#state",
            "thead .sort",
            ".card button",
            "#fresh",
        ):
            assert browser_page.evaluate(CONTRAST, selector) >= 4.5, (scheme, selector)
    assert browser_page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
