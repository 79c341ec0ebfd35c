"""The wait for the tasks of a query that has ended, without Spark: whatever happens meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.spark.engine import last_tasks
from ehkafka.spark.engine.last_tasks import await_tasks


def _some(value: Any) -> Any:
    """Return it as Scala does what may be missing."""
    return SimpleNamespace(isDefined=lambda: True, get=lambda: value)


def query_with(tasks: list[int]) -> Any:
    """Return a query of one job whose tasks are counted off, one number at each look; then it has none."""
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda _group: [3],
        getJobInfo=lambda _job: _some(SimpleNamespace(stageIds=lambda: [5])),
        getStageInfo=lambda _stage: _some(
            SimpleNamespace(numActiveTasks=lambda: tasks.pop(0) if tasks else 0)
        ),
    )
    context = SimpleNamespace(statusTracker=lambda: tracker)
    session = SimpleNamespace(sparkContext=lambda: context)
    return SimpleNamespace(_jsq=SimpleNamespace(runId=lambda: "run", sparkSession=lambda: session))


def test_o1_tasks_are_waited_for_though_the_group_cannot_be_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """O1: what fails meanwhile is the run's error afterwards: a handler that still runs matters more."""
    monkeypatch.setattr(last_tasks, "LOOK_S", 0.001)
    tasks, failures = [2, 2, 1], []

    def fail(_timeout_s: float) -> None:
        failures.append(OSError(f"no memory, {len(tasks)} looks left"))
        raise failures[-1]

    with pytest.raises(OSError, match="no memory, 2 looks left") as failed:
        await_tasks(query_with(tasks), fail)
    assert tasks == []
    assert len(failures) == 3
    assert failed.value is failures[0]


def test_o1_what_failed_is_told_of_tasks_that_do_not_end_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """O1: neither hides the other."""

    def fail(_timeout_s: float) -> None:
        raise OSError("no memory")

    with caplog.at_level("WARNING", "ehkafka.spark"), pytest.raises(OSError, match="no memory"):
        await_tasks(query_with([1] * 10_000), fail, 0.1)
    assert "1 tasks of the query still run" in caplog.text
