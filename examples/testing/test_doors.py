"""Tests of the app, without a broker and without a pause: `pytest examples/testing`."""

import doors
import pytest

from ehkafka.testing import run


def test_an_open_door_is_an_alert() -> None:
    """Outputs are records of their topic."""
    with run(doors.app) as t:
        t.send("readings", key="home-1", value={"door": "shut"})
        t.send("readings", key="home-1", value={"door": "open"})
        t.wait()
        assert [(one.key, one.json()) for one in t.outputs("alerts")] == [
            ("home-1", {"alert": "a door is open"})
        ]


def test_what_is_no_reading_goes_to_the_dead_letters() -> None:
    """With the reason."""
    with run(doors.app) as t:
        t.send("readings", key="home-1", value={"door": "ajar"})
        t.wait()
        assert t.letters("readings.dead")[0].reason == "ValueError: no such state of a door"


def test_a_retry_comes_twenty_seconds_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app's clock moves by a call: the test waits for nothing."""
    answers = iter([False, True])
    monkeypatch.setattr(doors, "guard_answers", lambda: next(answers))
    with run(doors.app) as t:
        t.send("readings", key="home-1", value={"door": "open"})
        t.advance(30)
        t.wait()
        assert len(t.outputs("alerts")) == 1
