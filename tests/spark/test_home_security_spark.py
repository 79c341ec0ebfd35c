"""The home-security pipeline on Spark: its numbers equal the simulator's ledger."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from home_pipeline.stage import HERE

if TYPE_CHECKING:
    from tests.kit.azurite import Azurite

RUN_S = 280.0  # half a minute on a machine that has time


@pytest.mark.timeout(300)
def test_one_command_runs_it_all_on_spark(spark_environment: dict[str, str], azurite: Azurite) -> None:
    """As its README says: at the end the page's numbers equal the ledger's, the new sensor's among them."""
    command = [sys.executable, str(HERE / "run.py"), "--seconds", "5", "--homes", "300", "--rate", "300"]
    command += ["--port", "0", "--window-s", "2", "--new-sensor-after", "3"]
    # Its session chooses a collector, which a second choice would contradict.
    quick = os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=quick)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✓ the page's numbers equal the ledger's" in ended.stdout
    assert "alarms has its alert in the topic" in ended.stdout
