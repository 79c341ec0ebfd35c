"""What an operator sees of all homes and of the pipeline: the real page over rows of a test, in Chromium."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from home_pipeline.names import address
from home_pipeline.page.pipeline import DONE, Asked
from home_pipeline.readings import SPOILT, Reading
from home_pipeline.stage import WISHES

from tests.examples.home_pages import HOME, answered
from tests.kit import home_screen
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.examples.home_pages import Town


def test_the_operator_filters_and_acknowledges_alarms_by_the_second(town: Town) -> None:
    """Newest first; kind and state stand in the address, so that a reload keeps them."""
    alarms = [
        town.says("smoke", 60.5, 300, home="home-000004", alarm=True),
        town.says("carbon_monoxide", 62.0, 100, home="home-000005", alarm=True),
        town.says("smoke", 70.0, 200, home="home-000006", alarm=True),
    ]
    page = town.open("/")
    page.wait_for_selector("#latest li >> nth=2")
    shown = [
        f"{home_screen.clock(one.at_us / 1e6, '%H:%M:%S')} {address(int(one.home[5:]))} "
        f"{one.kind.capitalize().replace('_', ' ')} {one.value:g} {one.unit} Acknowledge"
        for one in sorted(alarms, key=lambda one: -one.at_us)
    ]
    assert home_screen.rows(page, "#latest") == shown
    page.select_option("#kind", "smoke")
    wait_until(lambda: len(home_screen.rows(page, "#latest")) == 2)
    page.get_by_role("button", name=f"Acknowledge Smoke, {address(6)}").click()
    page.wait_for_selector("#latest > li:first-child .done:has-text('Acknowledged')")
    page.select_option("#state", "open")
    wait_until(lambda: len(home_screen.rows(page, "#latest")) == 1)
    assert page.inner_text("#alarms-title") == "Alarms of smoke: 2, 1 to acknowledge"
    page.reload()
    page.wait_for_selector("#latest li")
    assert page.url.endswith("?kind=smoke&state=open")
    assert [page.input_value(f"#{name}") for name in ("kind", "state")] == ["smoke", "open"]
    assert address(4) in home_screen.rows(page, "#latest")[0]
    page.get_by_role("link", name=address(4)).click()
    page.wait_for_selector(f"#name:has-text('{address(4)}')")


def test_without_the_token_actions_are_off_and_say_why(town: Town) -> None:
    """The reason is written where the buttons are; a wrong token is refused with the same reason."""
    town.says("smoke", 60.5, 100, alarm=True)
    town.status()
    reason = "Open the address with the token that the console printed."
    page = town.open("/", has_token=False)
    button = page.locator("#latest button")
    assert button.is_disabled()
    assert button.get_attribute("title") == reason
    assert reason.lower() in page.inner_text("#no-token").lower()
    assert page.locator("#sell").is_disabled()
    assert page.inner_text("#sell-why") == reason
    page.expected_failures.append("401")
    page.evaluate("location.hash = 'token=another'")
    page.wait_for_selector("#latest button:not([disabled])")
    assert page.evaluate("location.hash") == ""
    button.click()
    page.wait_for_selector("#said:has-text('The token is not the one of this run.')")
    page.wait_for_selector("#latest button[disabled]")


def test_silent_sensors_are_listed_the_latest_first(town: Town) -> None:
    """With their homes, and since when; how many there are in all is on a tile."""
    for number, ago_s in ((7, 900), (8, 400), (9, 10)):
        town.says("motion", 0.0, ago_s, home=f"home-{number:06d}")
    town.says("temperature", 20.0, 700, home="home-000007")
    page = town.open("/")
    page.wait_for_selector("#silent li >> nth=2")
    since = [home_screen.clock(town.now_s - ago_s) for ago_s in (400, 700, 900)]
    homes = [(8, "Motion"), (7, "Temperature"), (7, "Motion")]
    rows = [f"{address(n)} {kind} since {at}" for (n, kind), at in zip(homes, since, strict=True)]
    assert home_screen.rows(page, "#silent") == rows
    assert home_screen.tile(page, "silent") == 3
    assert page.inner_text("#silent-note") == "in 2 homes, for 3 intervals or longer"


def test_the_list_says_that_no_sensor_is_silent(town: Town) -> None:
    """With the rule of silence."""
    town.speaks(but={})
    page = town.open("/")
    page.wait_for_selector("#none-silent:has-text('Every sensor has spoken within 3 of its intervals.')")
    assert home_screen.tile(page, "silent") == 0


def test_the_share_of_spoilt_readings_is_on_a_tile(town: Town) -> None:
    """One of eight; they are no sensor and no kind."""
    for n in range(7):
        town.says("temperature", 20.0, 10 + 10 * n)
    town.says(SPOILT, 1.0, 30)
    page = town.open("/")
    assert page.inner_text('[data-number="spoilt"]') == "12.50%"
    assert page.inner_text("#spoilt-note") == "1 not counted"
    assert home_screen.kinds(page) == {"temperature": 7}


def test_the_operator_sees_lag_holders_and_the_engines_state(town: Town) -> None:
    """Each partition has its holder's letter; a second consumer takes half of them; the lag has its age."""
    town.says("temperature", 20.0, 5)
    town.status(state="starting", step="Spark 4.1 is up", restarts=2)
    with mock.patch.object(
        town.pipeline,
        "_asked",
        Asked(dict.fromkeys(range(16), 5), dict.fromkeys(range(16), "one"), time.time() - 3, None),
    ):
        page = town.open("/")
        page.wait_for_selector("#partitions li >> nth=15")
        assert home_screen.tile(page, "lag") == 80
        assert re.fullmatch(r"records not yet counted, \d+ s ago", page.inner_text("#lag-note"))
        assert "starting since" in page.inner_text("#engine")
        assert page.inner_text("#engine-note") == "Spark 4.1 is up · Started again 2 times."
        assert home_screen.rows(page, "#holders") == ["A one: 16 partitions"]
    both = {n: "one" if n < 8 else "two" for n in range(16)}
    with mock.patch.object(
        town.pipeline, "_asked", Asked(dict.fromkeys(range(16), 0), both, time.time(), None)
    ):
        page.wait_for_selector("#holders li >> nth=1")
        assert home_screen.rows(page, "#holders") == ["A one: 8 partitions", "B two: 8 partitions"]
        assert home_screen.rows(page, "#partitions") == [f"{'AB'[n > 7]} {n}" for n in range(16)]
        assert page.get_attribute("#partitions li:nth-child(9)", "aria-label") == "Partition 8: two, lag 0"


@pytest.mark.parametrize(
    ("what", "name"), [("sell", "Sell carbon monoxide sensors"), ("second", "Start a second consumer")]
)
def test_a_button_asks_the_demo_and_its_result_is_announced(town: Town, what: str, name: str) -> None:
    """The wish is in the demo's folder, the answer in a live region, and the button says why it is off."""
    town.says("temperature", 20.0, 5)
    town.status()
    page = town.open("/")
    button = page.get_by_role("button", name=name)
    page.wait_for_selector(f"#{what}:not([disabled])")
    button.click()
    page.wait_for_selector(f"#{what}[disabled]")
    assert page.get_by_role("status").filter(has_text=DONE[what]).count() == 1
    assert what in json.loads((town.folder / WISHES).read_text())
    assert page.inner_text(f"#{what}-why") != ""


def test_a_window_that_may_still_grow_is_striped(town: Town) -> None:
    """Its key stands below the chart until nothing more can come for it."""
    first_s = town.now_s // 10 * 10 - 200
    readings = [
        Reading(HOME, "temperature", "°C", int((first_s + n) * 1e6), 20.0, alarm=False) for n in range(199)
    ]
    town.says_all(readings)
    page = town.open("/")
    page.wait_for_selector("#rates canvas")
    assert page.locator("#open-windows").is_visible()
    page.hover(
        "#rates .u-over", position={"x": page.locator("#rates .u-over").bounding_box()["width"] - 3, "y": 60}
    )
    assert "may still grow" in page.inner_text("#rates .tip")
    town.says_all([Reading(HOME, "temperature", "°C", int((first_s + 199) * 1e6), 20.0, alarm=False)], None)
    page.wait_for_selector("#open-windows", state="hidden")


def test_the_time_span_is_kept_by_a_reload(town: Town) -> None:
    """One, six or 24 hours: in the address, and in what the server is asked."""
    town.says("temperature", 20.0, 7_300)
    town.says("temperature", 20.0, 5)
    page = town.open("/")
    wait_until(lambda: home_screen.kinds(page) == {"temperature": 1})
    with answered(page, "/api/overview?hours=6"):
        page.select_option("#hours", "6")
    page.reload()
    wait_until(lambda: home_screen.kinds(page) == {"temperature": 2})
    assert page.input_value("#hours") == "6"


def test_the_search_answers(town: Town) -> None:
    """Homes as links, one home at once, and that no home matches."""
    street = address(33).split(" ", 1)[1]
    for number in (33, 1_033):
        town.says("temperature", 20.0, 5, home=f"home-{number:06d}")
    page = town.open("/")
    search = page.get_by_role("searchbox")
    search.fill("nowhere at all <b>")
    search.press("Enter")
    page.wait_for_selector("#found-words:has-text('No home matches “nowhere at all <b>”.')")
    search.fill(street)
    search.press("Enter")
    page.wait_for_selector("#found-words:has-text('2 homes')")
    assert home_screen.rows(page, "#found-homes") == [f"{address(n)} home-{n:06d}" for n in (33, 1_033)]
    search.fill("33")
    search.press("Enter")
    page.wait_for_selector(f"#name:has-text('{address(33)}')")
