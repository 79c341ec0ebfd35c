"""The home-security page: in Chromium, number by number against the ledger; and against hostile addresses."""

from __future__ import annotations

import http.client
import os
import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import screen
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.layout import encode, rows_of
from home_pipeline.ledger import Ledger
from home_pipeline.readings import Town, home_name
from home_pipeline.rules import Windows, parse
from home_pipeline.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.azurite import Azurite

RATE = 60
MINUTES = 9
# Beside the first and lively homes some that are hardly heard of.
HOMES = (0, 7, 42, 99, 150, 201, 333, 399)


@pytest.fixture(scope="module")
def town() -> tuple[Ledger, list[bytes]]:
    """Return the ledger of nine minutes of 400 homes, and what lies in the container for them."""
    begin_us = (int(time.time()) // 60 - MINUTES - 1) * 60_000_000
    sent = Town(homes=400, rate=RATE, begin_us=begin_us, new_sensor_after_s=MINUTES * 60 - 150).sent()
    ledger = Ledger(detailed_homes=400)
    blobs = []
    for _ in range(MINUTES * 6):
        portion = [next(sent) for _ in range(RATE * 10)]
        for one in portion:
            ledger.note(one)
        readings = [parse(one.value, one.timestamp_ms) for one in portion]
        blobs.append(encode(rows_of([reading for reading in readings if reading], Windows())))
    return ledger, blobs


@pytest.fixture(scope="module")
def address(
    azurite: Azurite, town: tuple[Ledger, list[bytes]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Return where the page is served, as a process of its own, over a container with the town's blobs."""
    named = {STORAGE: azurite.connection_string(), CONTAINER: f"page-{secrets.token_hex(6)}"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        with open_container() as container:
            create_container(container)
            for number, blob in enumerate(
                town[1]
            ):  # the first minutes from one engine, the others from Spark
                is_local = number < MINUTES * 3
                folder = "local/readings/00000" if is_local else f"spark/batch={number:012d}"
                container.upload_blob(f"{folder}/{number:020d}.jsonl", blob)
                if not is_local:
                    container.upload_blob(f"{folder}/_manifest.json", b"")
    stage = Stage(tmp_path_factory.mktemp("page"), os.environ | named)
    try:
        yield screen.serve(stage, sum(town[0].per_minute.values()))
        assert stage.stop("page") == 0
    finally:
        stage.stop_all()


def test_the_page_shows_what_the_ledger_says(
    address: str, town: tuple[Ledger, list[bytes]], browser_page: Any, tmp_path: Path
) -> None:
    """Each tile, legend entry and sensor card carries the number that the simulator's ledger gives."""
    ledger, _blobs = town
    screen.open_overview(browser_page, address)
    assert screen.tile(browser_page, "readings") == sum(ledger.per_minute.values())
    alarms = sum(n for (_, _, alarm), n in ledger.per_minute.items() if alarm)
    assert screen.tile(browser_page, "alarms") == alarms
    by_kind: Counter[str] = Counter()
    for (_minute, kind, _alarm), number in ledger.per_minute.items():
        by_kind[kind] += number
    assert screen.kinds(browser_page) == by_kind
    assert browser_page.locator('#legend [data-kind="water"] .badge').inner_text() == "new"
    assert screen.tile(browser_page, "homes") == 400
    browser_page.hover("#rates .u-over")
    assert "Temperature" in browser_page.inner_text("#rates .tip")
    picture(browser_page, tmp_path / "overview.png")
    names = [home_name(number) for number in HOMES]
    wanted = {name: screen.expected(ledger.homes[name]) for name in names}
    assert screen.homes(browser_page, address, names) == wanted
    picture(browser_page, tmp_path / "home.png")


def test_an_unknown_home_is_a_calm_page(address: str, browser_page: Any) -> None:
    """A home that nothing was heard of, and an address that is no home's: words, no script, no error."""
    browser_page.goto(f"http://{address}/home/home-999999")
    browser_page.wait_for_selector("#nothing:not([hidden])")
    browser_page.expected_failures.append("404")
    browser_page.goto(f"http://{address}/home/%3Cimg%20src=x%20onerror=alert(1)%3E")
    assert "no such home" in browser_page.inner_text("#fresh")
    assert browser_page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize(
    "path",
    [
        "/api/home/home-00004",
        "/api/home/home-0000422",
        "/api/home/home-000042%0a",
        "/api/home/home-%D9%A0%D9%A0%D9%A0%D9%A0%D9%A4%D9%A2",
        "/api/home/home-000042'%20or%20'1'='1",
        "/api/home/..%2f..%2foverview",
        "/home/" + "x" * 5000,
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/api",
    ],
)
def test_a_hostile_address_finds_nothing(address: str, path: str) -> None:
    """Not found, nothing of the address is sent back, and the policy stands on errors, too."""
    status, headers, body = asked(address, path)
    assert status == 404
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert b"000042" not in body


def test_the_server_answers_its_own_names_and_reads_alone(address: str) -> None:
    """Another host's name (DNS rebinding) and every method that would change something are refused."""
    assert asked(address, "/api/overview", host="evil.example")[0] == 400
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert asked(address, "/api/overview", method=method)[0] == 405


def picture(page: Any, path: Path) -> None:
    """Take one, to where EHKAFKA_PICTURES says if it does: for the README."""
    kept = os.environ.get("EHKAFKA_PICTURES")
    page.screenshot(path=f"{kept}/{path.name}" if kept else path, full_page=True)


Answer = tuple[int, Any, bytes]


def asked(address: str, path: str, *, method: str = "GET", host: str | None = None) -> Answer:
    """Return the status, headers and body of an answer; the address goes out as it is."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host or address})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()
