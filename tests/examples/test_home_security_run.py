"""The home-security pipeline by its one command, as its README says; what lacks a package says which."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from home_pipeline.stage import HERE, Stage

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.testing.azurite import Azurite

RUN_S = 100.0
SMALL = ("--seconds", "8", "--homes", "300", "--rate", "300", "--port", "0", "--new-sensor-after", "4")


def test_one_command_runs_it_all_and_checks_itself(azurite: Azurite) -> None:
    """Broker, storage, simulator, two members, page: at the end the page's numbers equal the ledger's."""
    said = run("--engine", "local", "--second-after", "2", *SMALL)
    assert "a second process joins the group" in said
    assert "✓ the page's numbers equal the ledger's" in said


def test_a_part_that_ends_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    """A process that has ended is named with its code and its last words."""
    stage = Stage(tmp_path, {"PATH": "/nowhere"})
    stage.start("page", "page.server")
    stage.parts["page"].wait(30)
    [words] = stage.failed()
    assert words.startswith("page ended with code 1")
    assert "HOME_SECURITY_STORAGE and HOME_SECURITY_CONTAINER" in words
    assert stage.stop("page") == 1


def run(*arguments: str) -> str:
    """Run the command to its end, which must be a good one; return what it said."""
    command = [sys.executable, str(HERE / "run.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
