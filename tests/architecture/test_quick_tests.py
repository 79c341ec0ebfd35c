"""`scripts/test --quick` takes rooms that are there and names every other one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tests.architecture.test_dependencies import TESTS

if TYPE_CHECKING:
    import pytest


def test_a_quick_run_names_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder with tests is run or named; none that it runs has gone."""
    monkeypatch.syspath_prepend(TESTS.parent / "scripts")
    checks = importlib.import_module("_checks")
    run, left_out = checks.quick_rooms()
    there = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    named = left_out.removeprefix("left out: ").partition(", and elsewhere")[0].split(", ")
    assert set(run) == {f"tests/{room}" for room in checks.QUICK}
    assert {*checks.QUICK, *named} == there
    assert {"contract", "consumer", "lanes"} <= checks.QUICK
