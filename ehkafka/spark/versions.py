"""Which PySpark is there, and one clear error for each that will not do.

Called on the driver before a query is built, and by a program that starts a session.
"""

from __future__ import annotations

import importlib.util
import re

from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.wording.extras import install

SOURCES_SINCE = (4, 0)
"""Python data sources."""


def check_pyspark() -> tuple[int, int]:
    """Return PySpark's version. Raises `MissingExtraError`, `ConfigurationError` for one that is too old."""
    version = pyspark_version()
    if version < SOURCES_SINCE:
        found = ".".join(map(str, version))
        raise ConfigurationError(
            f"PySpark {found} has no data sources in Python; ehkafka needs 4.0 or newer. Upgrade, or"
            " use the JVM connector with ehkafka.spark.kafka_options(endpoint), which makes its options."
        )
    return version


def gives_limits() -> bool:
    """Tell whether Spark gives a source the start and the limit of a batch: PySpark from 4.2 on.

    By what is there, since platforms add parts of newer releases to their own.
    """
    try:
        return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
    except ModuleNotFoundError:
        return False


def pyspark_version() -> tuple[int, int]:
    """Return major and minor version. Raises `MissingExtraError` where there is no PySpark."""
    try:
        import pyspark  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(f"Spark needs PySpark: {install('spark')}") from None
    numbers = re.findall(r"\d+", pyspark.__version__)
    return int(numbers[0]), int(numbers[1])
