"""What the page shows of canned states, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit import http_states as states
from tests.kit.page_shown import card, picture, text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.page_shown import Shown


def test_a_healthy_app_is_a_calm_page(shown: Shown, browser_page: Any) -> None:
    """Numbers, rates by difference, four plots, the process; nothing holds it up though records are young."""
    shown(states.healthy())
    assert text(browser_page, "#group") == "shop"
    assert text(browser_page, "#state") == "Running · healthy"
    assert browser_page.locator("#nothing-holds").is_visible()
    assert browser_page.locator("#cards .card").count() == 0
    assert text(browser_page, '[data-number="lag"]') == "108"
    assert text(browser_page, "#lag-note") == "keeps up"
    browser_page.wait_for_selector(".plot canvas >> nth=3")
    rate = 'tr[data-name="readings/3"] td:nth-child(2) bdi'
    browser_page.wait_for_selector(f'{rate}:text-matches("^2[0-9]{{2}}$")')
    assert "84 MiB" in text(browser_page, "#process")
    assert "ehkafka 0.9.0" in text(browser_page, "#process")
    assert "16 (auto, 1 to 256)" in text(browser_page, "#handlers")
    browser_page.hover("#plot-rates .u-over")
    assert "handled" in text(browser_page, "#plot-rates .tip")


def test_a_call_that_hangs_marks_its_partition_and_offers_what_can_be_done(
    shown: Shown, browser_page: Any, tmp_path: Path
) -> None:
    """The user's line first in its stack; what the server would refuse is off, with the server's reason."""
    double = shown(states.hanging())
    row = browser_page.locator('tr[data-name="readings/3"]')
    assert "held up by a running call" in row.inner_text()
    assert "attention" in row.get_attribute("class")
    assert browser_page.locator("#partitions-rows .attention").count() == 1
    assert text(browser_page, "#waiting-note") == "1 commit held up"
    held = card(browser_page, "readings/3@91003")
    assert "running for 5 min 39 s on ehkafka-store-4, its deadline is 5 s" in held.inner_text()
    held.locator("summary").click()
    assert held.locator("pre.code").inner_text().startswith('  File "shop/handle.py", line 0, in handle')
    for action in ("Retry", "Skip", "Dead letter"):
        button = held.get_by_role("button", name=action)
        assert button.is_disabled()
        assert (
            "readings/3@91003 is with its handler: a running record cannot be retried"
            in button.get_attribute("title")
        )
    assert held.get_by_role("button", name="Pause").is_enabled()
    picture(browser_page, tmp_path / "page-hanging.png")
    state = states.hanging()
    state["keys"][0] |= {"status": "waiting: on hold", "refused": {}}
    double.state = state
    browser_page.wait_for_selector("#cards button.skip:not([disabled])")
    assert held.get_by_role("button", name="Skip").get_attribute("title") == ""


def test_a_poison_key_is_what_holds_it_up(shown: Shown, browser_page: Any, tmp_path: Path) -> None:
    """Key, record, value, attempts, error and the reason, above all else; young records are no blockers."""
    shown(states.poisoned())
    held = card(browser_page, "readings/3@91003")
    for part in (
        "home-4711",
        "waiting: on hold",
        "5 attempts",
        "132 queued records",
        "ReadingError",
        '"sensor": null',
        "4 min 12 s ago",
    ):
        assert part in held.inner_text()
    assert browser_page.locator("#cards .card").count() == 2
    assert text(browser_page, "#state") == "Running · 1 problem"
    assert "readings/3 stands at 91003" in text(browser_page, "#reasons")
    assert text(browser_page, '[data-number="oldest"]') == "4 min 12 s"
    assert text(browser_page, '[data-number="waiting"]') == "3"
    assert text(browser_page, "#lag-note") == "not catching up"
    assert "(1) shop" in browser_page.title()
    browser_page.click("#errors-rows tr:first-child summary")
    assert 'File "shop/readings.py", line 41' in text(browser_page, "#errors-rows tr:first-child pre")
    browser_page.click("#other-keys summary")
    assert "home-99" in text(browser_page, "#other-rows tr:has-text('paused')")
    browser_page.click("#other-keys summary")
    picture(browser_page, tmp_path / "page.png")


def test_partitions_are_sorted_by_any_column(shown: Shown, browser_page: Any) -> None:
    """A thousand of them stay usable: the one with the most lag comes first, then the one with the least."""
    shown(states.crowded())
    first = "#partitions-rows tr:first-child th"
    assert text(browser_page, first) == "readings/0"
    browser_page.get_by_role("button", name="Lag").click()
    assert text(browser_page, first) == "readings/999"
    browser_page.get_by_role("button", name="Lag").click()
    assert text(browser_page, first) == "readings/0"
    assert browser_page.locator("th[aria-sort=ascending]").inner_text().startswith("Lag")
    assert browser_page.locator("#cards .card").count() == 8
    assert text(browser_page, "#more-cards").startswith("492 more keys hold up a commit")
    browser_page.click("#other-keys summary")
    assert browser_page.locator("#other-rows tr").count() == 200


def test_members_are_listed(shown: Shown, browser_page: Any) -> None:
    """Each member with its state and how it ended last."""
    shown(states.with_members())
    assert text(browser_page, "#members-rows tr:nth-child(1) td:nth-child(5)") == "48"
    assert "it was killed by signal 9" in text(browser_page, "#members-rows tr:nth-child(2)")


def test_what_members_have_noted_says_whose_it_is(shown: Shown, browser_page: Any, tmp_path: Path) -> None:
    """Errors of one kind stand apart for each; a member that is silent is named above."""
    shown(states.noted_by_members())
    assert "Member 2 does not answer" in text(browser_page, "#notes")
    browser_page.click("#errors-rows tr:nth-child(2) summary")
    assert "line 99" in text(browser_page, "#errors-rows tr:nth-child(2) pre")
    assert "member 1" in card(browser_page, "readings/3@91003").inner_text()
    picture(browser_page, tmp_path / "noted.png")


def test_events_come_as_they_happen(shown: Shown, browser_page: Any) -> None:
    """Before the next state has them."""
    double = shown(states.healthy(), every_s=4.0)
    event = {"at_s": 1e9, "level": "warning", "kind": "KeyHeld", "sentence": "key 'k' is held"}
    for listener in double.journal.listeners:
        listener(event)
    browser_page.wait_for_selector("#events-rows tr.attention:has-text(\"key 'k' is held\")")
