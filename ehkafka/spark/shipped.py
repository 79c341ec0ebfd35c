"""Lets Spark's planning processes on the driver import what `--py-files` ships.

Executors get it by themselves. The processes that plan a streaming source look for it in a folder below the
right one (seen in PySpark 4.3), and end with "No module named …". Called before a source is registered, on
the driver.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "PYTHONPATH"


def let_planners_import(spark: SparkSession) -> None:
    """Put what was shipped on the path of the Python processes that the driver starts from now on.

    Executors are told the same path, which is the driver's: where it is not there, it has no effect.
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
