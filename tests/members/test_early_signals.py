"""Signals that come before there are members: they do what they do later."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

APP = """
import signal, sys, time, ehkafka
app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.embedded({"t": 2}), start="earliest")
app.handler("t")(print)

def wait(*_):
    print("WAITING", flush=True)
    time.sleep(30)
"""
IMPORTING = APP + "wait()"
PLANNING = APP + "import ehkafka.members.opening as opening; opening.plan_of = wait; app.run(members=2)"
COMMAND = ["-m", "ehkafka.cli", "run", "early:app", "--members", "2"]


@pytest.mark.parametrize(("text", "command"), [(IMPORTING, COMMAND), (PLANNING, ["early.py"])])
def test_a_signal_before_members_run_ends_or_spares_the_supervisor(
    tmp_path: Path, text: str, command: list[str]
) -> None:
    """Without a terminal SIGHUP replaces nothing yet, and SIGTERM ends with exit code 0."""
    (tmp_path / "early.py").write_text(text)
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "WAITING\n"
            program.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                program.wait(0.3)
            program.send_signal(signal.SIGTERM)
            assert program.wait(10.0) == 0
        finally:
            program.kill()
