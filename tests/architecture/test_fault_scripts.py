"""`scripts/faults` finds the tests of every row, wherever they are, and installs what they need."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def test_each_row_has_its_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is there, and each file of rows belongs to one: none is left out."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    rows = importlib.import_module("_faults_rows").rows()
    assert len({row.number for row in rows}) == len(rows) >= 35
    named = [test for row in rows for test in row.tests]
    for test in named:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), test
        assert f"def {name}" in (ROOT / file).read_text(), test
    assert all(row.tests for row in rows)
    files = (*ROOT.glob("tests/faults/test_row_*.py"), *ROOT.glob("tests/spark/engine/test_row_*.py"))
    assert {str(path.relative_to(ROOT)) for path in files} <= {*named}


def test_a_test_is_known_by_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a file, and one of several with other values."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    row = importlib.import_module("_faults_rows").Row(
        1, "a fault", "Kafka", ("tests/a.py", "tests/b.py::test_c")
    )
    assert row.has("tests/a.py::test_x[1]")
    assert row.has("tests/b.py::test_c[at-least-once]")
    assert not row.has("tests/b.py::test_c_other")


def test_what_spark_needs_is_installed_on_a_clean_checkout() -> None:
    """Row 28 asks for PySpark and row 27 draws, which the tests' group does not bring."""
    text = (ROOT / "scripts" / "faults").read_text()
    assert '_environment.enter(("test", "spark", "bench"), broker=True)' in text
