"""The home-security pipeline on Spark: its numbers equal the simulator's ledger."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import check, screen, simulate
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.follower import Follower
from home_pipeline.ledger import MINUTE_US, read_ledger
from home_pipeline.page import answers
from home_pipeline.rules import Windows
from home_pipeline.stage import HERE, Stage
from home_pipeline.table import Table

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from azure.storage.blob import ContainerClient
    from home_pipeline.ledger import Ledger
    from home_pipeline.readings import Reading
    from pyspark.sql import SparkSession

    from tests.kit.azurite import Azurite

READINGS = 6_000
HOMES = 100
RUN_S = 280.0  # half a minute on a machine that has time


@pytest.fixture
def container(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerClient]:
    """Return a container of the test's own, which the environment names, too."""
    monkeypatch.setenv(STORAGE, azurite.connection_string())
    monkeypatch.setenv(CONTAINER, f"home-{secrets.token_hex(6)}")
    with open_container() as opened:
        create_container(opened)
        yield opened


@pytest.mark.timeout(300)
def test_what_spark_wrote_equals_the_ledger(
    spark: SparkSession, container: ContainerClient, azurite: Azurite, tmp_path: Path, browser_page: Any
) -> None:
    """Two runs with one checkpoint, readings in between: each closed window of each home, exactly once.

    As the page's server would answer for every home, and as Chromium shows it for some.
    """
    from home_pipeline.spark_engine import start  # noqa: PLC0415 - needs PySpark

    secret = tmp_path / "storage"
    secret.write_text(azurite.connection_string())

    def run(bootstrap: str) -> None:
        query = start(
            spark,
            bootstrap,
            container.container_name,
            str(tmp_path / "checkpoint"),
            windows=Windows(),
            trigger={"availableNow": True},
            storage={"connectionStringFile": str(secret)},
            most=READINGS // 2,
        )
        query.awaitTermination()

    with EmbeddedBroker({"readings": 16}) as broker:
        begin_us = MINUTE_US * 29_000_000
        first = send(broker.bootstrap, tmp_path / "first.json", begin_us)
        run(broker.bootstrap)
        second = send(broker.bootstrap, tmp_path / "second.json", begin_us + READINGS * 10_000)
        run(broker.bootstrap)
    shown = shown_homes(container)
    assert len(shown) == HOMES
    readings = closed(read_ledger(first), read_ledger(second))
    for home, sensors in shown.items():
        assert sensors == check.expected_sensors(readings[home])
    stage = Stage(tmp_path, os.environ)
    try:
        total = sum(map(len, readings.values()))
        address = screen.serve(stage, total)
        screen.open_overview(browser_page, address)
        assert screen.tile(browser_page, "readings") == total
        assert "water" in screen.kinds(browser_page)
        some = sorted(shown)[:3]
        wanted = {home: screen.expected(readings[home]) for home in some}
        assert screen.homes(browser_page, address, some) == wanted
        screen.leave(browser_page)
    finally:
        stage.stop_all()


@pytest.mark.timeout(300)
def test_one_command_runs_it_all_on_spark(spark_environment: dict[str, str], azurite: Azurite) -> None:
    """As its README says: at the end the page's numbers equal the ledger's, the new sensor's among them."""
    command = [sys.executable, str(HERE / "run.py"), "--seconds", "5", "--homes", "300", "--rate", "300"]
    command += ["--port", "0", "--window-s", "2", "--new-sensor-after", "3"]
    # Most of a short run is a JVM that warms up: the second compiler would take more than it gives.
    quick = os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=quick)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✓ the page's numbers equal the ledger's" in ended.stdout
    assert "alarms has its alert in the topic" in ended.stdout


def closed(first: Ledger, second: Ledger) -> dict[str, list[Reading]]:
    """Return each home's readings of both, the closing one of the second aside: its window is open."""
    found = defaultdict(list)
    for ledger in (first, second):
        for home, readings in ledger.homes.items():
            found[home] += [reading for reading in readings if reading.at_us != second.closing_us]
    return found


def send(bootstrap: str, ledger_file: Path, begin_us: int) -> Path:
    """Send a minute of readings, all in the ledger."""
    given = ["--bootstrap", bootstrap, "--ledger", str(ledger_file), "--homes", str(HOMES)]
    given += ["--detailed-homes", str(HOMES), "--count", str(READINGS), "--rate", "100"]
    given += ["--begin-us", str(begin_us), "--new-sensor-after-s", "30", "--closing-s", "0"]
    if "second" in ledger_file.name:
        given[-1] = "60"
    simulate.simulate(simulate.arguments().parse_args(given), SimpleNamespace())  # type: ignore[arg-type]
    return ledger_file


def shown_homes(container: ContainerClient) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what the page would show of each home."""
    table = Table(keep_s=86_400)
    try:
        assert Follower(container, table).poll() > 0
        numbers = [number for (number,) in table.ask("select distinct home from minutes")]
        homes = [answers.home(table, f"home-{number:06d}", 0.0) for number in sorted(numbers)]
        return {home["home"]: check.shown_sensors(home) for home in homes}
    finally:
        table.close()
