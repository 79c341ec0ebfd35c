"""Makes this package's formats known to a session where Spark does not find them by itself.

Spark looks for data sources among the modules of the driver's Python, so `format("ehkafka")` works at once
where the package is installed. What `--py-files` ships is not looked at. Called by the user's program, on
the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.spark import versions
from ehkafka.spark.shipped import let_planners_import

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_formats(spark: SparkSession) -> None:
    """Let this session read `format("ehkafka")` and write `format("ehkafka-blob")`; twice does no harm.

    Raises `ConfigurationError` for a PySpark that has no data sources in Python.
    """
    versions.check_pyspark()
    # Both need the extra, which a user with a session has installed.
    from ehkafka.spark.sink.data_source import BlobDataSource  # noqa: PLC0415
    from ehkafka.spark.source.data_source import EhkafkaDataSource  # noqa: PLC0415

    let_planners_import(spark)
    for source in (EhkafkaDataSource, BlobDataSource):
        spark.dataSource.register(source)
