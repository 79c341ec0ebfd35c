"""Lets Spark find what `--py-files` ships: this package's formats, and modules in its planning processes.

Spark looks for data sources among the modules of the driver's Python, so `format("ehkafka")` works at once
where the package is installed. What is shipped executors find by themselves. The processes that plan a
streaming source look for it in a folder below the right one (seen in PySpark 4.3), and end with "No module
named …". What Spark unpickles there needs the path before, so it is given on the driver before a source is
registered; a module that only an option names is found by the process itself.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession

VARIABLE = "PYTHONPATH"


def register_formats(spark: SparkSession) -> None:
    """Let a session read `format("ehkafka")` and write `format("ehkafka-blob")`; twice does no harm.

    - `spark` (required): the `SparkSession`.

    Raises `ConfigurationError` for a PySpark that has no data sources in Python.
    """
    from ehkafka.spark import versions  # noqa: PLC0415 - a process that plans does without

    versions.check_pyspark()
    # Both need the extra, which a user with a session has installed.
    from ehkafka.spark.sink.data_source import BlobDataSource  # noqa: PLC0415
    from ehkafka.spark.source.data_source import EhkafkaDataSource  # noqa: PLC0415

    let_planners_import(spark)
    for source in (EhkafkaDataSource, BlobDataSource):
        spark.dataSource.register(source)


def let_planners_import(spark: SparkSession) -> None:
    """Put what was shipped on the path of the Python processes that the driver starts from now on.

    Executors get the same path, which is the driver's: where it is not there, it has no effect.
    """
    context = getattr(spark, "sparkContext", None)
    environment = getattr(context, "environment", None)
    if environment is None:
        return  # Spark Connect, which ships by itself
    from pyspark import SparkFiles  # noqa: PLC0415 - an extra

    root = Path(SparkFiles.getRootDirectory())
    archives = [root / name for name in getattr(context, "_python_includes", None) or ()]
    shipped = [str(path) for path in (*archives, root) if path.exists()]
    before = environment.get(VARIABLE, "").split(os.pathsep)
    environment[VARIABLE] = os.pathsep.join(
        [*shipped, *(each for each in before if each and each not in shipped)]
    )


def import_shipped(name: str) -> ModuleType:
    """Import a module, in a planning process also one that was shipped. Raises `ImportError`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        found = _one_folder_up()
        if not found:
            raise
    sys.path += found
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _one_folder_up() -> list[str]:
    """Return what was shipped and is not on the path, by the entries that Spark made for it."""
    files = getattr(sys.modules.get("pyspark"), "SparkFiles", None)
    # Private, but the only thing that tells a Python process of Spark's from the user's program.
    if files is None or not getattr(files, "_is_running_on_worker", False):
        return []
    root = Path(files.getRootDirectory())
    there = [Path(entry) for entry in sys.path if Path(entry).is_relative_to(root)]
    meant = [str(root.parent / entry.relative_to(root)) for entry in there]
    return [entry for entry in meant if entry not in sys.path and Path(entry).exists()]
