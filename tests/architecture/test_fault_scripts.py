"""`scripts/faults` finds the tests of every row, wherever they are, and installs what they need."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


VERDICT = {"finished": 100, "duplicates": 2, "lost": 0, "premature_commits": 0}
RED = '<failure message="lost 1"/>'


def test_a_series_goes_on_with_the_seeds_that_are_missing_or_were_red(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first run makes seeds 1 and 2, and 2 is red; the second repeats 2, makes 3 and sums up all."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    run, series, long = (
        importlib.import_module(f"_{name}") for name in ("faults_run", "faults_series", "long_run")
    )
    row = importlib.import_module("_faults_rows").Row(3, "kills", "Kafka", ("tests/a.py::test_b",))
    ran: list[int] = []

    def fake(seed: int, _rows: object, _options: object, folder: Path) -> int:
        is_red = seed == 2 and seed not in ran
        ran.append(seed)
        case = f'<testcase file="tests/a.py" name="test_b">{RED if is_red else ""}</testcase>'
        (folder / f"{seed}.xml").write_text(f"<testsuite>{case}</testsuite>")
        verdict = VERDICT | {"order_violations": 0, "stale_commits": 0, "lost": int(is_red)}
        lines: list[dict[str, Any]] = [{"group": "g"} | verdict, {"recovery_s": [seed]}]
        (folder / f"{seed}.jsonl").write_text(
            "\n".join(json.dumps({"test": "tests/a.py::test_b"} | line) for line in lines)
        )
        return int(is_red)

    monkeypatch.setattr(run, "_run", fake)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    for module in (run, long):
        monkeypatch.setattr(module, "commit", lambda: "abc")
    monkeypatch.setattr(long, "ROOT", tmp_path)
    monkeypatch.setattr(long, "FOLDER", tmp_path)
    monkeypatch.setattr(series.kept, "__defaults__", ((tmp_path,),))
    asked = argparse.Namespace(runs=2, seed=1, scale=10, row=None, minutes=None, resume=True)
    assert run._run_all([row], asked) == 1
    asked.runs = 3
    assert run._run_all([row], asked) == 0
    assert ran == [1, 2, 2, 3]
    found = json.loads((tmp_path / "faults.json").read_text())
    assert found["rows"] == [[3, "kills", "Kafka", 4, 1, 400, 1, 0, 0, 0, "2.00", "2.0 / 3.0"]]
    assert found["counts"] == {"rows": 1, "runs": 4, "tests": 4, "records": 400}
    assert found["broken"] == 1
    assert series.kept(5, [tmp_path]) == []
