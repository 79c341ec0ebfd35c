"""The Python that Spark starts for its tasks: one without this package is told before a query begins."""

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


def test_workers_without_the_package_are_told_with_the_variable(bare: str) -> None:
    """The message names Spark's Python, and what PYSPARK_PYTHON has to be."""
    with pytest.raises(
        ConfigurationError, match=f"{bare}.* has no ehkafka. Set PYSPARK_PYTHON={sys.executable}"
    ):
        check_workers_python(session(bare))


def test_a_python_that_is_not_there_is_told() -> None:
    """As PYSPARK_PYTHON with a slip of the pen."""
    with pytest.raises(ConfigurationError, match="no-such-python' \\(which is not there\\)"):
        check_workers_python(session("no-such-python"))


def test_what_works_or_cannot_be_known_is_left_alone(bare: str, tmp_path: Path) -> None:
    """The driver's own Python, another with the package, what was shipped, and machines of a cluster."""
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o700)
    check_workers_python(session(sys.executable))
    check_workers_python(session(str(other)))
    check_workers_python(session(bare, includes=["ehkafka.zip"]))
    check_workers_python(session(bare, files="ehkafka.zip"))
    check_workers_python(session(bare, master="spark://10.0.0.4:7077"))


def session(python: str, *, master: str = "local[2]", files: str | None = None, includes: Any = ()) -> Any:
    """Return as much of a session as is asked."""
    conf = SimpleNamespace(get=lambda _name: files)
    context = SimpleNamespace(
        pythonExec=python, master=master, getConf=lambda: conf, _python_includes=[*includes]
    )
    return SimpleNamespace(sparkContext=context)
