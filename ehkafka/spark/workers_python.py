"""Whether the Python that Spark starts for its tasks has this package, and what it needs there.

PySpark starts `python3` of the PATH unless PYSPARK_PYTHON names another: a program that is started by the
Python of a virtual environment which is not activated would report missing modules, or that there is no
such format. Asked on the driver, of a session on this machine alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

ASK_S = 60.0


def check_workers_python(spark: SparkSession) -> None:
    """Raise `ConfigurationError` when workers on this machine could not import this package."""
    context = spark.sparkContext
    python = context.pythonExec
    found = shutil.which(python)
    # What --py-files or addPyFile ship is on the workers' path, and need not be installed.
    is_shipped = context.getConf().get("spark.submit.pyFiles") or context._python_includes  # noqa: SLF001
    if not str(context.master).startswith("local") or is_shipped or found == sys.executable:
        return
    if not _has_package(found or python, _environment(context.environment)):
        raise ConfigurationError(
            f"Spark starts its workers by {python!r} ({found or 'which is not there'}), and that Python has "
            f"no ehkafka, confluent-kafka or pyarrow. Set PYSPARK_PYTHON={sys.executable} before the session "
            "is made, or activate the virtual environment."
        )


def _environment(of_workers: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker: this one, with what `spark.executorEnv.…` says of it."""
    paths = (of_workers.get("PYTHONPATH"), os.environ.get("PYTHONPATH"))
    path = os.pathsep.join(one for one in paths if one)
    return {**os.environ, **of_workers, **({"PYTHONPATH": path} if path else {})}


def _has_package(python: str, environment: Mapping[str, str]) -> bool:
    # The package alone loads nothing of what it needs.
    command = [python, "-c", "import ehkafka.app, pyarrow"]
    try:
        asked = subprocess.run(command, env=environment, capture_output=True, timeout=ASK_S, check=False)  # noqa: S603 - what Spark itself starts
    except subprocess.TimeoutExpired:
        return True  # a machine that is too busy to answer proves nothing
    except OSError:
        return False
    return asked.returncode == 0
