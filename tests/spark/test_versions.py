"""Which PySpark is there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.spark import register_formats, versions


def _with_pyspark(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    module = types.ModuleType("pyspark")
    module.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", module)


def test_no_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PySpark the error says what to install."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*'pyspark<"):
        versions.check_pyspark()


def test_a_pyspark_without_sources_names_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 4.0 there are no Python sources: the JVM connector's options are named."""
    _with_pyspark(monkeypatch, "3.5.4")
    with pytest.raises(ConfigurationError, match=r"PySpark 3\.5.*kafka_options"):
        versions.check_pyspark()
    with pytest.raises(ConfigurationError, match=r"PySpark 3\.5.*kafka_options"):
        register_formats(None)  # type: ignore[arg-type]


def test_limits_are_found_by_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A platform may add them to a 4.1 of its own; 4.0 and 4.1 work with a limit of ours."""
    pytest.importorskip("pyspark.sql.streaming.datasource")
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    assert versions.gives_limits()
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    assert not versions.gives_limits()
    _with_pyspark(monkeypatch, "4.0.1")
    assert not versions.gives_limits()


def test_the_room_is_imported_without_pyspark() -> None:
    """What names options and reads progress needs no extra."""
    code = (
        "import sys; sys.modules['pyspark'] = None; sys.modules['pyarrow'] = None; import ehkafka.spark;"
        " from ehkafka.ranges import log, reading; from ehkafka.spark.source import options, stream;"
        " print('there')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "there\n"


@pytest.mark.parametrize("name", ["pyspark_ehkafka", "pyspark_ehkafka_blob"])
def test_the_formats_register_themselves(name: str) -> None:
    """Spark looks for top-level modules `pyspark_*`: they are there in both kinds of installation."""
    assert importlib.util.find_spec(name) is not None
    pytest.importorskip("pyspark")
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415 - an extra

    module = importlib.import_module(name)
    assert issubclass(module.DefaultSource, DataSource)
    # By its own name: executors then need no more than the package to read a pickle of it.
    assert module.DefaultSource.__module__.startswith("ehkafka.spark.")


def test_pandas_3_is_left_out() -> None:
    """Trap: with pandas 3 `assertDataFrameEqual` and `pyspark.pandas` fail."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (pandas,) = [one for one in project["project"]["optional-dependencies"]["spark"] if "pandas" in one]
    assert "<3" in pandas
