"""A home for Spark whose Python processes are there sooner: they import the installed, compiled PySpark.

In PySpark's own folder they find an archive of its sources first, `python/lib/pyspark.zip`. What is imported
out of an archive is compiled anew by each process, which takes most of the time until it is there. Everything
else is that folder's own, by links. For tests; the Python of each machine has to have PySpark installed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ehkafka.errors import MissingExtraError

# What starts Java, and what it runs.
_PARTS = ("bin", "jars")


def make_spark_home(directory: Path) -> Path:
    """Make it inside `directory`; return what `SPARK_HOME` is to be."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError("Spark's tests need PySpark: pip install --group spark")
    home = directory / "spark-home"
    home.mkdir()
    for name in _PARTS:
        (home / name).symlink_to(Path(spec.origin).parent / name)
    return home
