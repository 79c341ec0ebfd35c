"""Type checkers read the drop-in as they read confluent-kafka's consumer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_program.py")


def test_mypy_takes_a_program() -> None:
    """Strictly, with the types of what `commit` returns."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(PROGRAM)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert checked.returncode == 0, checked.stdout


def test_pyright_takes_a_program() -> None:
    """The same by pyright's rules."""
    pytest.importorskip("basedpyright")
    command = [sys.executable, "-m", "basedpyright", "--level", "error", str(PROGRAM)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert checked.returncode == 0, checked.stdout
