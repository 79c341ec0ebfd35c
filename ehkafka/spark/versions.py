"""Which PySpark is there, and one clear error for each that will not do.

Called on the driver before a query is built, and by a program that starts a session.
"""

from __future__ import annotations

import importlib.util
import re

from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.wording.extras import install

SOURCES_SINCE = 4
"""Python data sources."""


def check_pyspark() -> None:
    """Raise `MissingExtraError` where there is no PySpark, `ConfigurationError` for one that is too old."""
    try:
        import pyspark  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError(f"Spark needs PySpark: {install('spark')}") from None
    major, minor = re.findall(r"\d+", pyspark.__version__)[:2]
    if int(major) < SOURCES_SINCE:
        raise ConfigurationError(
            f"PySpark {major}.{minor} has no data sources in Python; ehkafka needs 4.0 or newer. Upgrade, or"
            " use the JVM connector with the options that ehkafka.spark.kafka_options(endpoint) makes."
        )


def gives_limits() -> bool:
    """Tell whether Spark gives a source the start and the limit of a batch: PySpark from 4.2 on.

    By what is there, since platforms add parts of newer releases to their own.
    """
    try:
        return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
    except ModuleNotFoundError:
        return False
