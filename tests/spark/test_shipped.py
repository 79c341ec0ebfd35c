from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkFiles

from ehkafka.spark.shipped import let_planners_import

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the driver's folder of shipped files, with one archive in it."""
    (tmp_path / "app.zip").touch()
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    return tmp_path


def session(environment: dict[str, str]) -> Any:
    """Return what of a session is looked at."""
    context = SimpleNamespace(environment=environment, _python_includes=["app.zip", "gone.zip"])
    return SimpleNamespace(sparkContext=context)


def test_planning_processes_can_import_what_was_shipped(root: Path) -> None:
    """Archives that are there, then single files, then what the user had set; twice changes nothing."""
    environment = {"PYTHONPATH": "/mine"}
    for _ in range(2):
        let_planners_import(session(environment))
        assert environment["PYTHONPATH"].split(os.pathsep) == [str(root / "app.zip"), str(root), "/mine"]


def test_a_session_without_a_context_is_left_alone(root: Path) -> None:
    """Spark Connect ships code by its own way."""
    let_planners_import(SimpleNamespace())  # type: ignore[arg-type]
