"""How a parallel run hands out files of tests, with processes that are only made believe."""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.schedule import OWN_SPARK, LongFirst

ROOT = Path(__file__).parents[2]
FILES = {
    "tests/aio/test_closing.py": 9,
    "tests/contract/test_app_keys.py": 30,
    "tests/faults/test_row_27_soak.py": 1,
    "tests/integration/test_kill.py": 2,
    "tests/integration/test_positions.py": 21,
    "tests/spark/engine/test_command.py": 12,
    "tests/spark/engine/test_query.py": 10,
    "tests/spark/source/test_batch.py": 11,
    "tests/workers/test_rate.py": 10,
}
ALONE = "tests/spark/engine/test_row_28.py::test_row_28_a_killed_driver"
TESTS = [f"{path}::test_{number}[a::b]" for path, count in FILES.items() for number in range(count)]
TESTS += [ALONE, "tests/spark/engine/test_row_28.py::test_row_28_a_failed_batch"]


class Process:
    """A process that is given tests, and says when it has run one."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.waiting: deque[int] = deque()
        self.ran: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        """Take tests."""
        self.waiting.extend(indices)

    def shutdown(self) -> None:
        """Take no more."""
        self.shutting_down = True


@pytest.fixture
def processes() -> list[Process]:
    """Return three processes that have run all tests."""
    option = SimpleNamespace(loadscopereorder=True)
    config: Any = SimpleNamespace(getvalue=lambda _name: ["3*popen"], option=option)
    schedule, made = LongFirst(config), [Process(number) for number in range(3)]
    nodes: list[Any] = [*made]
    for node in nodes:
        schedule.add_node(node)
    for node in nodes:
        schedule.add_node_collection(node, TESTS)
    schedule.schedule()
    while any(process.waiting for process in made):
        for node in nodes:
            if node.waiting:
                index = node.waiting.popleft()
                node.ran.append(TESTS[index])
                schedule.mark_test_complete(node, index)
    return made


def test_each_test_runs_once_and_each_file_in_one_process(processes: list[Process]) -> None:
    """However the files are handed out."""
    assert sorted(test for process in processes for test in process.ran) == sorted(TESTS)
    homes = defaultdict(set)
    for process in processes:
        for test in process.ran:
            homes[test if test == ALONE else test.partition("::")[0]].add(process.gateway.id)
    wanted = {*FILES, ALONE, ALONE.partition("::")[0]}
    assert {path: len(found) for path, found in homes.items()} == dict.fromkeys(wanted, 1)


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


def functions_of(path: Path) -> dict[str, set[str]]:
    """Return the functions of a file with the names of what each is given, as fixtures are."""
    found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return {node.name: {argument.arg for argument in node.args.args} for node in found}
