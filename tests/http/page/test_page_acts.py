"""What the page does: previews first, tokens, and the keyboard, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.errors import ActionRefusedError
from tests.kit import http_states as states
from tests.kit.http_double import TOKEN
from tests.kit.page_shown import card, text

if TYPE_CHECKING:
    from tests.kit.page_shown import Shown


def test_skipping_shows_first_what_it_will_do(shown: Shown, browser_page: Any) -> None:
    """The dialog has the server's sentence; once it is confirmed the head's offset goes along."""
    double = shown(states.poisoned())
    double.sentences["skip"] = "Skip readings/3@91003: its commit goes on to 91004."
    card(browser_page, "readings/3@91003").get_by_role("button", name="Skip key home-4711").click()
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    assert text(browser_page, "#dialog-text") == "Skip readings/3@91003: its commit goes on to 91004."
    assert double.actions(preview=False) == []
    browser_page.get_by_label("All 132 records of the key").check()
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    assert [one["all"] for one in double.actions(preview=True)] == [False, True]
    browser_page.get_by_label("All 132 records of the key").uncheck()
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    browser_page.click("#dialog-confirm")
    browser_page.wait_for_selector("#dialog", state="hidden")
    asked = {"do": "skip", "target": "key", "name": "readings/3@91003", "offset": 91_003, "all": False}
    assert double.actions(preview=False) == [{**asked, "preview": False}]
    assert text(browser_page, "#done") == "Skip readings/3@91003: its commit goes on to 91004."


def test_all_works_by_keyboard_and_the_focus_returns(shown: Shown, browser_page: Any) -> None:
    """Enter opens, Escape cancels, and the focus is where it was, though states come in."""
    double = shown(states.poisoned())
    retry = card(browser_page, "readings/3@91003").get_by_role("button", name="Retry key home-4711")
    retry.focus()
    browser_page.wait_for_timeout(400)
    assert browser_page.evaluate("document.activeElement.textContent") == "Retry"
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    assert browser_page.evaluate("document.activeElement.id") == "dialog-cancel"
    browser_page.keyboard.press("Escape")
    browser_page.wait_for_selector("#dialog", state="hidden")
    assert browser_page.evaluate("document.activeElement.textContent") == "Retry"
    assert double.actions(preview=False) == []
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    browser_page.keyboard.press("Tab")
    # The key is freed: its card goes away before the dialog is closed.
    double.state = states.healthy()
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_selector("#dialog", state="hidden")
    browser_page.wait_for_selector("#nothing-holds", state="visible")
    assert [one["do"] for one in double.actions(preview=False)] == ["retry"]


def test_a_dialog_that_is_opened_again_before_the_next_frame_gets_its_answer(
    shown: Shown, browser_page: Any
) -> None:
    """The browser reports a close a frame later, and a quick key press comes before that."""
    shown(states.poisoned())
    retry = card(browser_page, "readings/3@91003").get_by_role("button", name="Retry key home-4711")
    retry.click(trial=True)  # waits until it may be clicked
    retry.evaluate("it => { it.click(); document.getElementById('dialog').close(); it.click(); }")
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    assert browser_page.evaluate("document.activeElement.id") == "dialog-cancel"


def test_a_refused_action_shows_the_servers_sentence(shown: Shown, browser_page: Any) -> None:
    """In the dialog, with the names that fit; there is nothing to confirm any more."""
    double = shown(states.poisoned())
    browser_page.expected_failures.append("409")
    names = ("readings/3@91003", "readings/5@91250")
    double.refusal = ActionRefusedError(
        "moved", "Nothing was done: another record is the head.", tuple(names)
    )
    card(browser_page, "readings/5@91250").get_by_role("button", name="Dead letter").click()
    browser_page.wait_for_selector("#dialog-text.refused")
    assert text(browser_page, "#dialog-text") == "Nothing was done: another record is the head."
    assert names[1] in text(browser_page, "#dialog-names")
    assert not browser_page.locator("#dialog-confirm").is_visible()


def test_an_action_that_is_refused_when_confirmed_says_so(shown: Shown, browser_page: Any) -> None:
    """The preview was fine, and meanwhile another person was quicker."""
    double = shown(states.poisoned())
    browser_page.expected_failures.append("409")
    card(browser_page, "readings/3@91003").get_by_role("button", name="Skip").click()
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    double.refusal = ActionRefusedError("moved", "Nothing was done: it has moved.")
    browser_page.click("#dialog-confirm")
    browser_page.wait_for_selector("#dialog-text.refused")
    assert text(browser_page, "#dialog-text") == "Nothing was done: it has moved."


def test_partitions_and_handlers_are_paused_and_stopped(shown: Shown, browser_page: Any) -> None:
    """A pause may have an end; what is paused by hand is resumed; a handler is stopped."""
    state = states.healthy()
    state["snapshot"]["partitions"][1]["is_paused_by_hand"] = True
    double = shown(state)
    browser_page.get_by_role("button", name="Pause partition readings/2").click()
    browser_page.get_by_label("How long").select_option("300")
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    browser_page.click("#dialog-confirm")
    browser_page.wait_for_selector("#dialog", state="hidden")
    browser_page.get_by_role("button", name="Resume partition readings/1").click()
    browser_page.click("#dialog-confirm:not([disabled])")
    browser_page.wait_for_selector("#dialog", state="hidden")
    browser_page.get_by_role("button", name="Stop handler store_reading").click()
    browser_page.click("#dialog-confirm:not([disabled])")
    browser_page.wait_for_selector("#dialog", state="hidden")
    assert [
        (one["do"], one["target"], one["name"], one.get("for_s")) for one in double.actions(preview=False)
    ] == [
        ("pause", "partition", "readings/2", 300),
        ("resume", "partition", "readings/1", None),
        ("stop", "handler", "store_reading", None),
    ]


def test_dead_letters_are_listed_shown_and_redriven(shown: Shown, browser_page: Any) -> None:
    """Asked for by hand; a redrive says first what it would do."""
    double = shown(states.healthy())
    one = {
        "partition": 0,
        "offset": 17,
        "key": "home-1",
        "value": '{"a": 1}',
        "headers": {"ehkafka-error": "E"},
    }
    double.letters = [
        one | {"at_s": 1_700_000_000.0, "error": "ValueError: no", "origin": "readings/3@91000"}
    ]
    browser_page.click("#letters-show")
    browser_page.click("#letter-list summary")
    for part in ("0@17", "home-1", '{"a": 1}', "readings/3@91000", "ehkafka-error"):
        assert part in text(browser_page, "#letter-list")
    browser_page.click("#letters-redrive")
    browser_page.wait_for_selector("#dialog-confirm:not([disabled])")
    assert text(browser_page, "#dialog-text") == "1 letters of readings.dead go home."
    browser_page.click("#dialog-confirm")
    browser_page.wait_for_selector("#dialog", state="hidden")
    asked = [body for path, body in double.asked if path == "/letters/redrive"]
    assert asked == [{"topic": "readings.dead", "preview": is_preview} for is_preview in (True, False)]


def test_without_a_token_no_action_is_offered_and_the_page_says_why(shown: Shown, browser_page: Any) -> None:
    """Buttons are off with the reason in sight; the token turns them on, and it can be forgotten."""
    browser_page.expected_failures.append("403")
    shown(states.poisoned(), is_signed_in=False)
    skip = card(browser_page, "readings/3@91003").get_by_role("button", name="Skip")
    assert skip.is_disabled()
    assert text(browser_page, "#why-not").startswith("Actions need the token")
    assert "need the token" in (skip.get_attribute("title") or "")
    browser_page.click("#sign-in")
    browser_page.fill("#token", "wrong")
    browser_page.wait_for_timeout(300)
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_selector("#token-wrong", state="visible")
    assert browser_page.input_value("#token") == ""
    browser_page.fill("#token", TOKEN)
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_selector("#cards button.skip:not([disabled])")
    assert TOKEN not in browser_page.content() + browser_page.url
    browser_page.click("#sign-out")
    browser_page.wait_for_selector("#cards button.skip[disabled]")


def test_a_page_that_needs_the_token_asks_for_it(shown: Shown, browser_page: Any) -> None:
    """Nothing is shown before."""
    browser_page.expected_failures.append("401")
    shown(states.healthy(), "#token-form:not([hidden])", is_signed_in=False, is_closed=True)
    assert text(browser_page, "#token-why").startswith("This request needs the token")
    assert not browser_page.locator("#content").is_visible()
    browser_page.fill("#token", TOKEN)
    browser_page.keyboard.press("Enter")
    browser_page.wait_for_selector("#content", state="visible")
    assert not browser_page.locator("#token-form").is_visible()
