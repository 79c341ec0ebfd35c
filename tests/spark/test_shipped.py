from __future__ import annotations

import os
import sys
import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkFiles

from ehkafka.spark.shipped import import_shipped, let_planners_import

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


def test_a_planning_process_finds_a_module_that_an_option_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given a folder below the right one; files and archives are found all the same."""
    below = tmp_path / "1f0a"
    (tmp_path / "home_shipped_file.py").write_text("NAME = 'file'")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("home_shipped_archived.py", "NAME = 'archived'")
    path = [*sys.path, str(below), str(below / "app.zip")]
    monkeypatch.setattr("sys.path", list(path))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", False)
    with pytest.raises(ModuleNotFoundError):
        import_shipped("home_shipped_file")
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(below))
    assert import_shipped("home_shipped_file").NAME == "file"
    assert import_shipped("home_shipped_archived").NAME == "archived"
    assert sys.path == [*path, str(tmp_path), str(tmp_path / "app.zip")]
    with pytest.raises(ModuleNotFoundError, match="home_not_shipped"):
        import_shipped("home_not_shipped")
