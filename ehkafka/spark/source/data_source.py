"""The format `ehkafka` of `spark.readStream` and `spark.read`.

Checks the options when a query is built, so that what is wrong is an error on the driver before anything
runs. Spark makes one for each query, in a Python process beside the driver, and pickles it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ehkafka.errors import ConfigurationError
from ehkafka.spark import versions
from ehkafka.spark.source import schema as columns
from ehkafka.spark.source.batch_reader import SourceBatchReader
from ehkafka.spark.source.options import options_from

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

FORMAT = "ehkafka"


class EhkafkaDataSource(DataSource):
    """Reads Kafka and Event Hubs. Raises `ConfigurationError` for wrong options when it is made."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        versions.check_pyspark()
        self.source_options = options_from(options)
        # What was given is not kept: the options that count are in one place.
        super().__init__({})

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns, as the JVM connector has them."""
        return columns.ddl(self.source_options.columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """Return the reader for this PySpark."""
        self._check(schema)
        if versions.gives_limits():
            from ehkafka.spark.source.stream_reader import SourceStreamReader  # noqa: PLC0415 - since 4.2

            return SourceStreamReader(self.source_options)
        from ehkafka.spark.source.early_stream_reader import EarlyStreamReader  # noqa: PLC0415

        return EarlyStreamReader(self.source_options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        self._check(schema)
        return SourceBatchReader(self.source_options)

    def _check(self, schema: StructType) -> None:
        ours = self.source_options.columns
        if tuple(schema.fieldNames()) != ours:
            raise ConfigurationError(
                f"The source's columns are {', '.join(ours)}: leave out .schema(…). The option columns"
                " chooses among them, and from_json(value, …) reads what is in a value."
            )
