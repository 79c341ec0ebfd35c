"""What Spark asks for to write: made and checked in a process of the driver's, pickled for the executors.

The commit of each batch runs in such a process again. So a writer keeps nothing but options, and no secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.failures import failure_of
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.writer.columns import check_columns, check_topic
from ehkafka.spark.writer.options import writer_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ehkafka.spark.writer.options import WriterOptions


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):
    """How a task ended: `refusal` is the error that any attempt would have, as `failure_of` reads it."""

    rows: int
    refusal: str | None


def kafka_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> KafkaWriter:
    """Return the writer of a frame. Raises `ConfigurationError` for what cannot be written."""
    if overwrite:
        raise ConfigurationError(
            "ehkafka only appends to a topic: mode('overwrite') and the output mode complete would replace"
            " what it contains. Use mode('append'), or the output mode append."
        )
    options = writer_options(given)
    columns = check_columns((field.name, field.dataType.simpleString()) for field in schema.fields)
    topic = check_topic(columns, options.topic, options.endpoint.endpoint().default_topic)
    return KafkaWriter(options, topic)


class KafkaWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Writes batch and streaming queries. `write` runs on executors, `commit` and `abort` on the driver.

    Of PySpark 4.0 and newer: only the writers of both kinds have Arrow batches there.
    """

    def __init__(self, options: WriterOptions, topic: str | None) -> None:
        """`topic` is that of all rows; None: the column topic has it."""
        self._options = options
        self._topic = topic

    def check(self, *, is_stream: bool) -> None:
        """Look at where the rows go. Raises `EhkafkaError` for what is not there, or refused."""
        from ehkafka.spark.writer.destination import check_destination  # noqa: PLC0415 - executors do without it

        check_destination(self._options, self._topic, is_stream=is_stream)

    @reported_in_one_line()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        """Write the rows of one task."""
        from ehkafka.spark.writer.task import write_rows  # noqa: PLC0415 - the driver's processes do without it

        context: Any = TaskContext.get()
        where = {"partition": context.partitionId(), "attempt": context.attemptNumber()}
        return RowsWritten(*write_rows(self._options, self._topic, iterator, **where))

    @reported_in_one_line()
    def commit(self, messages: Sequence[RowsWritten | None], batchId: int | None = None) -> None:  # type: ignore[override]  # noqa: ARG002, N803 - Spark's name
        """Raise what a task was refused; all rows of the others are written."""
        for message in messages:
            if message is not None and message.refusal is not None:
                raise failure_of(message.refusal)

    def abort(self, messages: Sequence[RowsWritten | None], batchId: int | None = None) -> None:  # type: ignore[override]  # noqa: N803
        """Leave what is written: a topic has no way back."""
