"""`ehkafka top MODULE:APP`: an app that serves nowhere runs with the screen, in a real terminal."""

from __future__ import annotations

import io
import logging
import signal
import sys
from typing import TYPE_CHECKING

from ehkafka.cli.top.here import LINES_MAX, terminal_left_alone
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.kit.terminal import Terminal

LIMIT_S = 60.0
SHOP = """
import logging
import ehkafka
from ehkafka.testing import EmbeddedBroker

logging.basicConfig(level=logging.INFO)
endpoint = ehkafka.Endpoint.embedded({"orders": 1})
app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", commit_interval_s=0.1)

@app.on_start
def produce():
    from confluent_kafka import Producer
    producer = Producer(endpoint.client_properties())
    producer.produce("orders", key="home-7", value=b"poison")
    producer.flush(10)

@app.handler("orders", on_failure=POLICY)
def handle(record):
    print("A line of the handler's.")
    raise ValueError("no luck")

@app.on_stop
def end():
    open("ended", "w").close()
"""


def test_it_shows_the_app_that_it_runs_and_q_stops_both(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    """Its log waits until the screen is gone; actions are allowed without a token."""
    there = terminal(SHOP.replace("POLICY", "ehkafka.Hold()"), "top", "shop:app")
    wait_until(lambda: "q stops it" in there.text, lambda: there.text, LIMIT_S)
    wait_until(lambda: "home-7" in there.text, lambda: there.text, LIMIT_S)
    # Before the screen is there its log is seen as ever.
    before = there.text.count("A line of the handler's.")
    assert "Actions need" not in there.text
    assert not (tmp_path / "ended").exists()
    there.press(b"q")
    assert there.process.wait(LIMIT_S) == 0
    assert (tmp_path / "ended").exists()
    assert "finishes what has started" in there.text
    assert there.text.count("A line of the handler's.") == before


def test_sigterm_stops_both(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    """As `ehkafka run`: nothing is left to a kill."""
    there = terminal(SHOP.replace("POLICY", "ehkafka.Hold()"), "top", "shop:app")
    wait_until(lambda: "q stops it" in there.text, lambda: there.text, LIMIT_S)
    there.process.send_signal(signal.SIGTERM)
    assert there.process.wait(LIMIT_S) == 0
    assert (tmp_path / "ended").exists()


def test_an_app_that_ends_by_itself_says_so_and_q_shows_why(terminal: Callable[..., Terminal]) -> None:
    """With the exit code that `ehkafka run` has."""
    there = terminal(SHOP.replace("POLICY", "ehkafka.Stop()"), "top", "shop:app")
    wait_until(lambda: "q to see why" in there.text, lambda: there.text, LIMIT_S)
    there.press(b"q")
    assert there.process.wait(LIMIT_S) == 1
    assert "no luck" in there.text


def test_what_logs_to_the_terminal_waits_until_it_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    """The last lines of it; a handler that writes elsewhere goes on."""
    logger = logging.getLogger("shop.of.this.test")
    logger.propagate = False
    elsewhere = io.StringIO()
    handlers = [logging.StreamHandler(sys.stderr), logging.StreamHandler(elsewhere)]
    for handler in handlers:
        logger.addHandler(handler)
    try:
        with terminal_left_alone():
            for number in range(LINES_MAX + 5):
                logger.warning("line %d.", number)
            assert capsys.readouterr().err == ""
            assert "line 7." in elsewhere.getvalue()
        shown = capsys.readouterr().err
        assert f"line {LINES_MAX + 4}." in shown
        assert "line 1." not in shown
        logger.warning("afterwards")
        assert capsys.readouterr().err == "afterwards\n"
    finally:
        logger.handlers.clear()
