"""The home-security pages while nothing is counted any more: the engine is killed, and no clock is moved."""

from __future__ import annotations

import os
import secrets
import signal
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import screen
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.stage import Stage

from ehkafka.testing import EmbeddedBroker
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.azurite import Azurite

LATE_S = 4.0
WAIT_S = 90.0
GREY = "() => Number(getComputedStyle(document.querySelector('{}')).opacity) < 0.6"


@pytest.fixture
def stage(azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Run the engine on readings that are sent now."""
    monkeypatch.setenv(STORAGE, azurite.connection_string())
    monkeypatch.setenv(CONTAINER, f"late-{secrets.token_hex(6)}")
    with EmbeddedBroker({"readings": 2}) as broker, open_container() as container:
        create_container(container)
        made = Stage(tmp_path, os.environ | {"HOME_SECURITY_BOOTSTRAP": broker.bootstrap})
        made.start("engine", "local_engine")
        ledger = str(tmp_path / "ledger.json")
        made.start(
            "simulator", "simulate", "--bootstrap", broker.bootstrap, "--ledger", ledger, "--homes", "30"
        )
        try:
            yield made
        finally:
            made.stop_all()


def test_both_pages_say_since_when_nothing_is_counted(
    stage: Stage, browser_page: Any, tmp_path: Path
) -> None:
    """While the engine lives a home is quiet; killed, no page says so: it says since when, and is grey."""
    address = screen.serve(stage, None, late_s=LATE_S)
    home = browser_page.context.new_page()
    for page, path in ((browser_page, ""), (home, "home/home-000007")):
        page.goto(f"http://{address}/{path}")
    home.wait_for_selector("#state:not([hidden])", timeout=1_000 * WAIT_S)
    wait_until(lambda: not is_late(home) and not is_late(browser_page), timeout_s=WAIT_S)
    os.killpg(stage.parts["engine"].pid, signal.SIGKILL)
    for page, value, name in ((browser_page, ".tiles", "overview"), (home, ".sensors", "home")):
        page.wait_for_selector("#late:not([hidden])", timeout=1_000 * WAIT_S)
        assert page.inner_text("#late").startswith("Nothing has been counted since ")
        assert page.inner_text("#late")[-8:] in page.inner_text("#fresh")
        assert "All quiet" not in page.inner_text("body")
        assert page.evaluate(GREY.format(value))
        page.screenshot(
            path=f"{os.environ.get('EHKAFKA_PICTURES', tmp_path)}/late-{name}.png", full_page=True
        )
    stage.stop("page")  # what does not answer is as old as what it said last
    browser_page.expected_failures.append("ERR_")
    home.wait_for_selector("#problem:not([hidden])", timeout=1_000 * WAIT_S)
    assert is_late(home)
    home.close()


def is_late(page: Any) -> bool:
    """Tell whether a page says of itself that it is."""
    return bool(page.evaluate("() => document.body.classList.contains('late')"))
