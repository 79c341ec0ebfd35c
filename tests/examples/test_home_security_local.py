"""The local engine: a batch handler, blobs in chains, members that come, are killed, and go."""

from __future__ import annotations

import os
import secrets
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import check, screen, simulate
from home_pipeline.chain import Chain
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.follower import Follower
from home_pipeline.layout import Row, complete, decode
from home_pipeline.ledger import MINUTE_US, read_ledger
from home_pipeline.page import answers
from home_pipeline.stage import Stage
from home_pipeline.table import Table

from ehkafka.testing import EmbeddedBroker
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from azure.storage.blob import ContainerClient

    from tests.kit.azurite import Azurite

WAIT_S = 200.0  # some seconds on a machine that has time
READINGS = 6_000


@pytest.fixture
def container(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerClient]:
    """Return a container of the test's own, which the environment names, too."""
    monkeypatch.setenv(STORAGE, azurite.connection_string())
    monkeypatch.setenv(CONTAINER, f"home-{secrets.token_hex(6)}")
    with open_container() as opened:
        create_container(opened)
        yield opened


def records(first: int, last: int) -> list[Any]:
    """Return records with these offsets, and nothing else."""
    return [SimpleNamespace(offset=lambda offset=offset: offset) for offset in range(first, last + 1)]


def one_row(found: Sequence[Any]) -> list[Row]:
    """Count records in a row."""
    return [Row("home-000001", "motion", "", 0, 10, len(found), 0, 0.0, 0.0, 0.0, 0.0, found[-1].offset())]


def test_a_record_is_in_a_chain_once_though_several_write_it(container: ContainerClient) -> None:
    """A paused owner, its successor and both again: overlapping ranges, each record counted once."""
    paused, successor = (Chain(container, "readings", 3) for _ in range(2))
    assert paused.append(records(0, 9), one_row) == 10
    assert successor.append(records(5, 14), one_row) == 5
    assert paused.append(records(10, 12), one_row) == 0  # it believes that the chain ends at 9
    assert paused.append(records(10, 19), one_row) == 5
    assert successor.append(records(15, 29), one_row) == 10
    assert Chain(container, "readings", 3).end() == 29
    assert Chain(container, "readings", 30).end() == -1
    names = complete([blob.name for blob in container.list_blobs()])
    rows = [row for name in names for row in decode(container.download_blob(name).readall(), name)]
    assert sum(row.readings for row in rows) == 30


@pytest.mark.timeout(300)
def test_members_come_and_are_killed_and_every_reading_counts_once(
    container: ContainerClient, tmp_path: Path, browser_page: Any
) -> None:
    """A member is killed in the middle, two others take over: each home's numbers equal the ledger's.

    As the page's server would answer for every home, and as Chromium shows it for some.
    """
    with EmbeddedBroker({"readings": 16}) as broker:
        ledger_file = send(broker.bootstrap, tmp_path)
        environment = os.environ | {
            "HOME_SECURITY_BOOTSTRAP": broker.bootstrap,
            "HOME_SECURITY_QUICK": "1",
            "HOME_SECURITY_MAX_RECORDS": "250",
        }
        stage = Stage(tmp_path, environment)
        try:
            stage.start("first", "local_engine")
            wait_until(lambda: len(list(container.list_blobs())) >= 5, timeout_s=WAIT_S)
            stage.parts["first"].kill()
            stage.parts.pop("first").communicate()
            stage.start("second", "local_engine")
            stage.start("third", "local_engine")
            shown = wait_for_table(container, ledger_file)
            assert [stage.stop("second"), stage.stop("third")] == [0, 0]
            ledger = read_ledger(ledger_file)
            address = screen.serve(stage, sum(ledger.per_minute.values()))
            screen.open_overview(browser_page, address)
            assert "water" in screen.kinds(browser_page)
            some = sorted(ledger.homes)[:3]
            wanted = {home: screen.expected(ledger.homes[home]) for home in some}
            assert screen.homes(browser_page, address, some) == wanted
            screen.leave(browser_page)
        finally:
            stage.stop_all()
    assert sum(ledger.left_out.values()) > 5
    for home, readings in ledger.homes.items():
        assert check.shown_sensors(shown[home]) == check.expected_sensors(readings)


def send(bootstrap: str, folder: Path, **other: Any) -> Path:
    """Send the readings of 200 homes, all in the ledger in full; return the ledger's file."""
    ledger_file = folder / "ledger.json"
    given = [
        "--bootstrap",
        bootstrap,
        "--ledger",
        str(ledger_file),
        "--homes",
        "200",
        "--detailed-homes",
        "200",
    ]
    given += ["--count", str(READINGS), "--rate", "100", "--new-sensor-after-s", "30"]
    given += ["--begin-us", str(MINUTE_US * 29_000_000)]
    given += [f"--{name.replace('_', '-')}={value}" for name, value in other.items()]
    never: threading.Event = SimpleNamespace()  # type: ignore[assignment]
    simulate.simulate(simulate.arguments().parse_args(given), never)
    return ledger_file


def wait_for_table(container: ContainerClient, ledger_file: Path) -> dict[str, Any]:
    """Read the container until everything is there; return what the page would answer for each home."""
    ledger = read_ledger(ledger_file)
    wanted = sum(ledger.per_minute.values())
    table = Table(keep_s=86_400)
    follower = Follower(container, table)
    try:
        wait_until(
            lambda: follower.poll() >= 0 and table.ask("select readings from sums") >= [(wanted,)],
            timeout_s=WAIT_S,
        )
        assert table.ask("select readings from sums") == [(wanted,)]
        return {home: answers.home(table, home, 0.0) for home in ledger.homes}
    finally:
        table.close()
