"""How a side's program ends; that its count never goes back is checked by each window as it runs."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.peers.conftest import SCRIPTS

SIDES = SCRIPTS / "peers" / "sides"
ENDS_AT_ONCE = "import protocol; report = protocol.Report(); report.ready(); report.wait()"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_side_ends_in_order_while_its_standard_input_is_open() -> None:
    """SIGTERM comes before its parent closes it; an interpreter that aborts would look like a failure."""
    command = [sys.executable, "-c", ENDS_AT_ONCE]
    with subprocess.Popen(
        command, cwd=SIDES, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"ready": true}\n'
        process.send_signal(signal.SIGTERM)
        assert process.wait(20.0) == 0, process.stderr.read().decode()
