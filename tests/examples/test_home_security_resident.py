"""What a resident sees of a home: the real page over rows of a test, in Chromium."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline.names import address
from home_pipeline.readings import Reading

from tests.examples.home_pages import HOME, SILENT_S
from tests.kit import home_screen
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.examples.home_pages import Town


def test_the_headline_is_the_open_door_and_since_when(town: Town) -> None:
    """Door and window stand there with the minute in which each was opened; the door is the headline."""
    town.speaks(but={"door_front": lambda ago_s: ago_s < 700, "window_kitchen": lambda ago_s: ago_s < 200})
    page = town.open()
    door, window = (home_screen.clock(town.begins(kind, 1)) for kind in ("door_front", "window_kitchen"))
    assert home_screen.facts(page) == [f"Front door open since {door}", f"Kitchen window open since {window}"]
    assert page.inner_text('.switch[data-kind="door_front"] .state') == f"Open since {door}"
    assert page.inner_text("#name") == address(33)
    assert page.title() == f"Front door open since {door} · {address(33)}"


def test_a_door_that_was_always_open_is_open_since_then_or_earlier(town: Town) -> None:
    """What is kept does not say when it was opened."""
    town.speaks(but={"door_front": lambda _: 1})
    [words, *_] = home_screen.facts(town.open())
    assert words == f"Front door open since {home_screen.clock(town.begins('door_front', 1))} or earlier"


@pytest.mark.parametrize(
    ("kind", "says", "state"),
    [
        ("door_front", lambda ago_s: ago_s < 100, "open"),
        ("window_kitchen", lambda ago_s: ago_s < 100, "open"),
        ("motion", lambda ago_s: 0.0 if ago_s > SILENT_S + 60 else None, "silent"),
        ("temperature", lambda ago_s: 20.0 if ago_s > SILENT_S + 60 else None, "silent"),
        ("motion", lambda ago_s: ago_s < 100, "quiet"),
    ],
)
def test_all_is_quiet_only_when_every_sensor_has_spoken_and_all_is_shut(
    town: Town, kind: str, says: Callable[[float], float | None], state: str
) -> None:
    """An open door, an open window or a sensor that is silent: the page does not say that all is quiet."""
    town.speaks(but={kind: says})
    page = town.open()
    assert (page.inner_text("#state") == "All quiet") == (state == "quiet")
    assert state in page.get_attribute("#state", "class").split()
    assert "All quiet" not in page.inner_text("#facts")
    said = "Every sensor has spoken in the last 2 min; doors and windows are shut."
    assert (said in home_screen.facts(page)) == (state == "quiet")


def test_a_silent_sensor_says_since_when(town: Town) -> None:
    """It is grey, with the time of its last reading; a door says what it was until then."""
    town.speaks(but={"door_front": lambda ago_s: 1 if ago_s > 500 else None})
    page = town.open()
    last_s = max(one.at_us for one in town.readings if one.kind == "door_front") / 1e6
    words = f"silent since {home_screen.clock(last_s)}"
    assert home_screen.facts(page) == [f"Front door {words}, open until then"]
    assert page.inner_text('.switch[data-kind="door_front"] .state') == words.capitalize()
    assert "is-silent" in page.get_attribute('.switch[data-kind="door_front"]', "class")


@pytest.mark.parametrize(
    ("kind", "value", "words"), [("smoke", 71.25, "Smoke"), ("glass_break", 1.0, "Glass break")]
)
def test_an_alarm_stays_until_it_is_acknowledged(town: Town, kind: str, value: float, words: str) -> None:
    """It is the headline, to the second; once acknowledged it says so, after a reload, too."""
    town.speaks(but={})
    alarm = town.says(kind, value, 95, alarm=True)
    town.says(kind, 0.0, 2)
    page = town.open()
    at = home_screen.clock(alarm.at_us / 1e6, "%H:%M:%S")
    assert home_screen.facts(page)[0] == f"{words} alarm {at}"
    [row] = home_screen.rows(page, "#latest")
    assert row.startswith(f"{at} {words}")
    assert row.endswith("Acknowledge")
    page.get_by_role("button", name=f"Acknowledge {words}").click()
    page.wait_for_selector("#latest .done:has-text('Acknowledged')")
    page.wait_for_selector("#state:has-text('All quiet')")
    assert re.match(r"Acknowledged at [0-9:]{8}: 1 alarm of ", page.inner_text("#said"))
    page.reload()
    page.wait_for_selector("#latest .done:has-text('Acknowledged')")
    assert page.inner_text("#state") == "All quiet"
    town.says(kind, value, 1, alarm=True)
    page.wait_for_selector("#state.alarm")
    assert page.locator("#latest button").count() == 1


def test_a_day_is_shown_by_the_minute_and_a_minute_without_a_reading_is_a_gap(town: Town) -> None:
    """Each minute of 24 hours, counted again from the readings: open, shut, or nothing at all."""
    readings = []
    for n in range(1_435):
        ago_s = 86_000 - 60 * n
        if n % 97 > 3 and ago_s > 0:
            at_us = int((town.now_s - ago_s) * 1_000_000)
            readings.append(Reading(HOME, "door_front", "", at_us, float(n % 31 < 2), alarm=False))
    town.says_all(readings)
    page = town.open()
    expected = {one.at_us // 60_000_000 * 60: "on" if one.value else "off" for one in readings}
    shown = home_screen.band(page, "door_front")
    assert len(shown) >= 1_430
    assert {at_s: state for at_s, state in shown.items() if state != "gap"} == expected
    assert [*shown] == [*range(min(shown), max(shown) + 60, 60)]
    heard = page.get_attribute('.switch[data-kind="door_front"] .plot', "aria-label")
    gaps = sum(state == "gap" for state in shown.values())
    assert heard.endswith(f"{gaps} minutes without a reading")
    page.select_option("#hours", "1")
    wait_until(lambda: len(home_screen.band(page, "door_front")) == 60)
    assert page.url.endswith("?hours=1")


# Whether the middle of each minute is painted: in the upper half, and just above the ground.
PAINTED = """one => {
  const { ctx, bbox, data } = one.chart.plot;
  return data[0].map((_, n) => [0.5, 0.05].map((height) => {
    const x = bbox.left + (bbox.width * (n + 0.5)) / data[0].length;
    return ctx.getImageData(x, bbox.top + bbox.height * (1 - height), 1, 1).data[3] > 100;
  }));
}"""


def test_a_band_is_tall_while_open_low_while_shut_and_empty_without_a_reading(town: Town) -> None:
    """Shape shows the state, not only colour: the test looks at what is painted."""
    town.speaks(3_500, but={"door_front": lambda ago_s: None if 1_000 < ago_s < 1_600 else ago_s < 700})
    page = town.open(f"/home/{HOME}?hours=1")
    states = home_screen.band(page, "door_front").values()
    painted = page.eval_on_selector('.switch[data-kind="door_front"]', PAINTED)
    looks = {"on": [True, True], "off": [False, True], "gap": [False, False]}
    assert painted == [looks[state] for state in states]
    assert {*states} == {*looks}


def test_the_cards_carry_what_the_readings_add_up_to(town: Town) -> None:
    """Count, total, lowest, highest and last of each sensor, counted again from the readings."""
    town.speaks(
        but={"temperature": lambda ago_s: 18 + ago_s % 8 / 8, "motion": lambda ago_s: ago_s % 120 < 60}
    )
    assert home_screen.sensors(town.open()) == home_screen.expected(town.readings)


def test_the_age_counts_on_without_an_answer_and_the_page_turns_grey(town: Town, browser_page: Any) -> None:
    """It says since when it has no answer, and nothing calls the home quiet; the next answer ends that."""
    town.speaks(but={})
    page = town.open()
    assert page.inner_text("#state") == "All quiet"
    browser_page.expected_failures.append("Failed to load resource")
    page.route("**/api/**", lambda route: route.abort())
    page.wait_for_selector("#late:has-text('The page has no answer since')")
    age = page.inner_text("#fresh")
    wait_until(lambda: page.inner_text("#fresh") != age)
    assert not page.locator("#state").is_visible()
    assert page.locator("body.late").count() == 1
    page.unroute("**/api/**")
    page.wait_for_selector("#state:visible")
    assert page.inner_text("#late") == ""


def test_nothing_is_quiet_while_nothing_is_counted(town: Town) -> None:
    """After `late_s` both pages say since when, and a home's state is not known."""
    town.now_s -= 700
    town.speaks(but={})
    page = town.open()
    newest = home_screen.clock(max(one.at_us for one in town.readings) / 1e6, "%H:%M:%S")
    for path in (f"/home/{HOME}", "/"):
        page = town.open(path)
        page.wait_for_selector("body.late")
        assert page.inner_text("#late") == f"Nothing has been counted since {newest}."
        assert "All quiet" not in page.inner_text("body")
