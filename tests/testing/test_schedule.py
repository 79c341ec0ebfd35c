"""Which tests a parallel run hands out first, and which of Spark's alone."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.kit.schedule import LONG_FIRST, OWN_SPARK

ROOT = Path(__file__).parents[2]


def test_what_goes_anywhere_takes_no_session() -> None:
    """Else there would be a second one: neither the fixture nor one that asks for it."""
    asking = {"spark"}
    for conftest in (ROOT / "tests/spark").rglob("conftest.py"):
        asking |= {name for name, wanted in functions_of(conftest).items() if wanted & asking}
    assert "queries" in asking
    for scope in OWN_SPARK:
        path, _, test = scope.partition("::")
        functions = functions_of(ROOT / path)
        chosen = {test: functions[test]} if test else functions
        assert {name: wanted & asking for name, wanted in chosen.items() if wanted & asking} == {}


def test_what_begins_first_is_there() -> None:
    """A file that was renamed would begin when its turn comes: perhaps as the last one."""
    assert [place for place in LONG_FIRST if not (ROOT / place).exists()] == []


def functions_of(path: Path) -> dict[str, set[str]]:
    """Return the functions of a file with the names of what each is given, as fixtures are."""
    found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return {node.name: {argument.arg for argument in node.args.args} for node in found}
