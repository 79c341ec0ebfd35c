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
# For processes that live for seconds, the second compiler and parallel collectors cost more than they bring.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def make_spark_home(directory: Path, package: Path | None = None) -> Path:
    """Make it inside `directory`; return what `SPARK_HOME` is to be.

    `package` is the folder of an installed PySpark, this environment's if it is None.
    """
    if package is None:
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise MissingExtraError("Spark's tests need PySpark: pip install --group spark")
        package = Path(spec.origin).parent
    home = directory / "spark-home"
    home.mkdir()
    for name in _PARTS:
        (home / name).symlink_to(package / name)
    return home
