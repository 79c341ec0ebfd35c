"""The Python that Spark starts for its tasks: one without this package is reported before a query begins."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.spark.workers_python import check_workers_python

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """Return a Python that cannot import the package, as one outside of the virtual environment."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o700)
    return str(python)


def test_workers_without_the_package_hear_of_the_variable(bare: str) -> None:
    """The message names Spark's Python, and what PYSPARK_PYTHON has to be."""
    with pytest.raises(
        ConfigurationError, match=f"{bare}.* has no ehkafka, .*Set PYSPARK_PYTHON={sys.executable}"
    ):
        check_workers_python(session(bare))


def test_a_python_that_is_not_there_is_reported() -> None:
    """As PYSPARK_PYTHON with a slip of the pen."""
    with pytest.raises(ConfigurationError, match="no-such-python' \\(which is not there\\)"):
        check_workers_python(session("no-such-python"))


def test_what_works_or_cannot_be_known_is_left_alone(bare: str) -> None:
    """The driver's own Python, what was shipped, and machines of a cluster."""
    check_workers_python(session(sys.executable))
    check_workers_python(session(bare, includes=["ehkafka.zip"]))
    check_workers_python(session(bare, files="ehkafka.zip"))
    check_workers_python(session(bare, master="spark://10.0.0.4:7077"))


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a Python that has nothing but what PYTHONPATH names, and a directory without the package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = tmp_path / "other"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o700)
    return str(python)


def make_modules(folder: Path, *names: str, app: str = "") -> str:
    """Make empty modules and a package whose app module has this text; return what PYTHONPATH is then."""
    package = folder / "ehkafka"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "app.py").write_text(app)
    for name in names:
        (folder / f"{name}.py").touch()
    return str(folder)


def test_another_python_with_the_package_is_left_alone(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is found by the workers' own PYTHONPATH, and by the driver's behind it, as Spark does."""
    path = make_modules(tmp_path / "modules", "pyarrow")
    check_workers_python(session(other, environment={"PYTHONPATH": path}))
    monkeypatch.setenv("PYTHONPATH", path)
    check_workers_python(session(other))
    check_workers_python(session(other, environment={"PYTHONPATH": str(tmp_path)}))


@pytest.mark.parametrize(("names", "app"), [((), ""), (("pyarrow",), "import no_such_client")])
def test_a_package_without_what_it_needs_is_reported(
    other: str, tmp_path: Path, names: tuple[str, ...], app: str
) -> None:
    """Its first module loads neither the client library nor pyarrow, and a task needs both."""
    path = make_modules(tmp_path / "modules", *names, app=app)
    with pytest.raises(ConfigurationError, match="has no ehkafka, confluent-kafka or pyarrow"):
        check_workers_python(session(other, environment={"PYTHONPATH": path}))


def session(
    python: str,
    *,
    master: str = "local[2]",
    files: str | None = None,
    includes: Any = (),
    environment: dict[str, str] | None = None,
) -> Any:
    """Return as much of a session as is asked."""
    conf = SimpleNamespace(get=lambda _name: files)
    context = SimpleNamespace(
        pythonExec=python,
        master=master,
        getConf=lambda: conf,
        _python_includes=[*includes],
        environment=environment or {},
    )
    return SimpleNamespace(sparkContext=context)
