"""How a parallel run hands out files of tests, with processes that are only made believe."""

from __future__ import annotations

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
TESTS = [f"{path}::test_{number}[a::b]" for path, count in FILES.items() for number in range(count)]


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
            homes[test.partition("::")[0]].add(process.gateway.id)
    assert {path: len(found) for path, found in homes.items()} == dict.fromkeys(FILES, 1)


def test_the_session_of_spark_has_one_process_and_what_is_long_begins_first(
    processes: list[Process],
) -> None:
    """A file that starts a Spark of its own goes anywhere."""
    first = [process.ran[0].partition("::")[0] for process in processes]
    assert first == [
        "tests/spark/engine/test_query.py",
        "tests/spark/engine/test_command.py",
        "tests/faults/test_row_27_soak.py",
    ]
    shared = {"tests/spark/engine/test_query.py", "tests/spark/source/test_batch.py"}
    assert shared <= {test.partition("::")[0] for test in processes[0].ran}


def test_what_goes_anywhere_takes_no_session() -> None:
    """Else there would be a second one."""
    for path in OWN_SPARK:
        assert "spark: SparkSession" not in (ROOT / path).read_text()
