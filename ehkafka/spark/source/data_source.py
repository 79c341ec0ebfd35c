"""The format `ehkafka` of `spark.readStream` and `spark.read`, `df.write` and `df.writeStream`.

Checks the options when a query is built, so that what is wrong is an error on the driver before anything
runs. Spark makes one for each query, in a Python process next to the driver, and pickles it. It makes one for
a writer, too, and tells only afterwards: so what is wrong with the options waits until it is known that
Spark wants to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from ehkafka.errors import ConfigurationError
from ehkafka.spark import secrets, versions
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.source.options import options_from
from ehkafka.spark.source.readers import RefusedStream, SourceBatchReader

if TYPE_CHECKING or versions.gives_limits():
    from ehkafka.spark.source.stream_reader import SourceStreamReader as SourceReader
else:
    from ehkafka.spark.source.early_stream_reader import EarlyStreamReader as SourceReader

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import Any

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.spark.writer.sink import KafkaWriter

FORMAT = "ehkafka"
TYPES: Mapping[str, str] = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""Spark's types of the columns, which are those of the JVM connector."""
__all__ = ["FORMAT", "TYPES", "EhkafkaDataSource", "SourceReader"]


class EhkafkaDataSource(DataSource):
    """Reads and writes Kafka and Event Hubs. Wrong options are refused before a query begins."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._refusal: str | None = None
        self._options: SourceOptions | None = None
        # Those of a writer are others. None where a secret is among them, which gets no further.
        self._given: Mapping[str, str] | None = None
        # It was pickled, so it commits a batch: where that goes was looked at before.
        self._is_copy = False
        try:
            secrets.refuse_secrets(options)
            self._given = dict(options)
            self._options = options_from(options)
        except ConfigurationError as error:
            self._refusal = str(error)
        super().__init__({})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_copy": True}

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    @property
    def source_options(self) -> SourceOptions:
        """The options of who reads. Raises `ConfigurationError`."""
        if self._options is None:
            raise ConfigurationError(self._refusal)
        return self._options

    @reported_in_one_line()
    def schema(self) -> str:
        """Return the columns, as the JVM connector has them."""
        return ", ".join(f"`{name}` {TYPES[name]}" for name in self.source_options.columns)

    @reported_in_one_line()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """Return the reader for this PySpark, or one that says what is wrong.

        What is raised here PySpark follows up with an error of its own: it cannot stop a reader it has not.
        """
        try:
            self._check(schema)
            return SourceReader(self.source_options)
        except ConfigurationError as error:
            return RefusedStream(str(error))

    @reported_in_one_line()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        self._check(schema)
        return SourceBatchReader(self.source_options)

    @reported_in_one_line()
    def writer(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        """Return the writer of a batch query. Raises `EhkafkaError`."""
        return self._writer(schema, overwrite, is_stream=False)

    @reported_in_one_line()
    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaWriter:  # noqa: N802 - PySpark's name
        """Return the writer of a batch of a streaming query. Raises `EhkafkaError`."""
        return self._writer(schema, overwrite, is_stream=True)

    def _writer(self, schema: StructType, overwrite: bool, *, is_stream: bool) -> KafkaWriter:
        from ehkafka.spark.writer.sink import check_destination, kafka_writer  # noqa: PLC0415 - for these alone

        if self._given is None:
            raise ConfigurationError(self._refusal)
        writer = kafka_writer(self._given, schema, overwrite=overwrite)
        if not self._is_copy:
            check_destination(writer.options, is_stream=is_stream)
        return writer

    def _check(self, schema: StructType) -> None:
        ours = self.source_options.columns
        if tuple(schema.fieldNames()) != ours:
            raise ConfigurationError(
                f"The source's columns are {', '.join(ours)}: leave out .schema(…). To choose columns, use"
                " the option columns. To read the fields of a value, use from_json(value, …)."
            )
