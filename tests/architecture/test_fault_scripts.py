"""`scripts/faults` finds the tests of every row, wherever they are, and installs what they need."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_a_row_is_found_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's row lies in Spark's room; without a number there are all of them, in order."""
    monkeypatch.syspath_prepend(SCRIPTS)
    row_tests = importlib.import_module("_faults_run").row_tests
    assert row_tests(7) == ["tests/faults/test_row_07_idle_close.py"]
    assert row_tests(28) == ["tests/spark/engine/test_row_28.py"]
    assert row_tests(99) == []
    assert {*row_tests(7), *row_tests(28)} < {*row_tests(None)}


def test_what_spark_needs_is_installed_on_a_clean_checkout() -> None:
    """Row 28 asks for PySpark and row 27 draws, which the tests' group does not bring."""
    assert '_environment.enter(("test", "spark", "bench"), broker=True)' in (SCRIPTS / "faults").read_text()
