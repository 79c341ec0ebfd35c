"""Each example runs as its docstring says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-P", "-m", "ehkafka.cli", "run"]


@pytest.mark.parametrize("path", ["examples/home_security/app.py", "examples.home_security.app:app"])
def test_home_security_raises_alarms_with_its_own_broker(path: str, tmp_path: Path) -> None:
    """It needs nothing but the package; handled in order, its readings always raise as many alarms."""
    output = _run_until(path, lambda text: text.count("ALARM home-") >= 1342, tmp_path)
    assert "the door was opened (readings[" in output
    assert "home-security: 1000 homes, 1342 alarms" in output.splitlines()[-1]


def test_home_security_reads_another_broker(tmp_path: Path) -> None:
    """With EHKAFKA_BOOTSTRAP it watches the homes there; smoke is an alarm in any house."""
    with EmbeddedBroker({"readings": 4}) as broker:
        broker.produce("readings", [("home-1", b'{"home": "home-1", "kind": "smoke", "value": 0.95}')])
        output = _run_until(
            "examples/home_security/app.py", lambda text: "ALARM" in text, tmp_path, broker.bootstrap
        )
    assert "ALARM home-1: smoke 0.95 (readings[" in output


def test_the_quickstart_prints_what_is_produced(tmp_path: Path) -> None:
    """The ten lines of the README, fed by the producer beside them; each home's readings in order."""
    with EmbeddedBroker({"readings": 4}) as broker:
        produced = subprocess.run(
            [sys.executable, "examples/quickstart/produce.py"],
            cwd=ROOT,
            env={**os.environ, "EHKAFKA_BOOTSTRAP": broker.bootstrap},
            capture_output=True,
            text=True,
            check=True,
        )
        assert produced.stdout.strip() == "produced 100 readings"
        output = _run_until(
            "examples/quickstart/app.py",
            lambda text: text.count("quickstart: readings[") >= 100,
            tmp_path,
            broker.bootstrap,
        )
    offsets: dict[str, list[int]] = {}
    for offset, home in re.findall(r"quickstart: readings\[\d\]@(\d+) \{'home': '([^']*)'", output):
        offsets.setdefault(home, []).append(int(offset))
    assert len(offsets) == 10
    assert all(seen == sorted(seen) for seen in offsets.values())


def test_the_quickstart_is_as_short_as_promised() -> None:
    """Ten lines of code."""
    lines = (ROOT / "examples/quickstart/app.py").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith('"""')]) <= 10


def _run_until(
    path: str, is_enough: Callable[[str], bool], folder: Path, bootstrap: str | None = None
) -> str:
    """Run an app until its log is enough, stop it by a signal, and return the whole log."""
    output = folder / "output"
    environment = {name: value for name, value in os.environ.items() if name != "EHKAFKA_BOOTSTRAP"}
    if bootstrap is not None:
        environment["EHKAFKA_BOOTSTRAP"] = bootstrap
    with output.open("w") as file:
        process = subprocess.Popen(
            [*RUN, path], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env=environment
        )
        try:
            deadline_s = time.monotonic() + 30.0
            while not is_enough(output.read_text()):
                assert process.poll() is None, output.read_text()[-2000:]
                assert time.monotonic() < deadline_s, output.read_text()[-2000:]
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20.0) == 0, output.read_text()[-2000:]
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return output.read_text()
