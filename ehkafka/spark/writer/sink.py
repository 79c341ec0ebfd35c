"""What Spark asks for to write: made and checked in a process of the driver's, pickled for the executors.

The commit of each batch runs in such a process again. So a writer keeps nothing but options, and no secret.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.failures import failure_of
from ehkafka.spark.one_line import reported_in_one_line
from ehkafka.spark.writer.options import check_columns, writer_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ehkafka.spark.writer.options import WriterOptions

_STEP_S: Final = 30.0
# What a batch query waits while every address refuses the connection.
_REFUSED_S: Final = 3.0
# The statistics tell of the producer's id.
_LOOKS_OFTEN: Final = {"statistics.interval.ms": 20}
# What this process has looked at. A stream asks for a writer in each batch, in processes that Spark keeps.
_SEEN: set[WriterOptions] = set()


@dataclass(frozen=True)
class TaskEnd(WriterCommitMessage):
    """How a task ended: `refusal` is the error that any attempt would have, as `failure_of` reads it."""

    refusal: str | None


def kafka_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> KafkaWriter:
    """Return the writer of a frame. Raises `ConfigurationError` for what cannot be written.

    The option counts more than the column, as with the JVM connector, and the connection string least.
    """
    if overwrite:
        raise ConfigurationError(
            "ehkafka only appends to a topic: mode('overwrite') and the output mode complete would replace"
            " what it contains. Use mode('append'), or the output mode append."
        )
    options = writer_options(given)
    check_columns([(field.name, field.dataType.simpleString()) for field in schema.fields])
    if options.topic is None and "topic" not in schema.names:
        options = replace(options, topic=options.endpoint.endpoint().default_topic)
        if options.topic is None:
            raise ConfigurationError(
                "No topic is named: give the option topic, or a column topic with the topic of each row."
            )
    return KafkaWriter(options)


def check_destination(options: WriterOptions, *, is_stream: bool) -> None:
    """Look at topic and credential before the first task, and at the right to write: a producer gets an ID.

    Event Hubs refuses that at the first message only. A stream looks once in a process, and patiently: a
    broker that restarts must not end it. Raises `EhkafkaError`.
    """
    from ehkafka.checks.inspection import Inspection  # noqa: PLC0415 - executors do without it all
    from ehkafka.checks.reach import enter, reach_topic  # noqa: PLC0415
    from ehkafka.checks.target import Target  # noqa: PLC0415
    from ehkafka.spark.writer.sending import RowSender  # noqa: PLC0415

    if is_stream and options in _SEEN:
        return
    topic, endpoint = options.topic, options.endpoint.endpoint()
    target = Target(endpoint=endpoint, topics=() if topic is None else (topic,))
    inspection = Inspection(target, min(_STEP_S, options.timeout_s))
    inspection.use(target.client_properties())
    refused_s = inf if is_stream else _REFUSED_S
    enter(inspection, lambda: reach_topic(inspection, topic, refused_s=refused_s))
    inspection.close()
    sender = RowSender(endpoint, **_LOOKS_OFTEN)
    try:
        sender.open(topic)
        sender.producer.await_id()
    finally:
        sender.producer.give_up(0.0)
    _SEEN.add(options)


class KafkaWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Writes batch and streaming queries. `write` runs on executors, `commit` and `abort` on the driver.

    A class of both kinds gets Arrow batches from PySpark 4.0 on.
    """

    def __init__(self, options: WriterOptions) -> None:
        self.options = options

    @reported_in_one_line()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskEnd:
        """Write the rows of one task."""
        from ehkafka.spark.writer.sending import write_rows  # noqa: PLC0415 - a commit does without it

        task: Any = TaskContext.get()
        where = {"partition": task.partitionId(), "attempt": task.attemptNumber()}
        return TaskEnd(write_rows(self.options, iterator, **where))

    @reported_in_one_line()
    def commit(self, messages: Sequence[TaskEnd | None], batchId: int | None = None) -> None:  # type: ignore[override]  # noqa: ARG002, N803 - Spark's name
        """Raise what a task was refused; all rows of the others are written."""
        for message in messages:
            if message is not None and message.refusal is not None:
                raise failure_of(message.refusal)

    def abort(self, messages: Sequence[TaskEnd | None], batchId: int | None = None) -> None:  # type: ignore[override]  # noqa: N803
        """Leave what is written: a topic has no way back."""
