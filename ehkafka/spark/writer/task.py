"""One task: its rows are sent, and it ends when all of them are written.

Runs on an executor, in Spark's Python worker, on the thread that runs the task. May run more than once for
the same rows: what an attempt before has written stays written. What another attempt would be refused again
is reported to the driver, which ends the query with it: a failed task would be tried three more times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.outputs.properties import output_bytes_max
from ehkafka.spark.engine.failures import as_text
from ehkafka.spark.writer.patience import LOG, TooLateError
from ehkafka.spark.writer.producers import KEPT, SETTINGS, WriterProducer
from ehkafka.spark.writer.rows import Rules, portions
from ehkafka.spark.writer.sending import RowSender

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ehkafka.spark.writer.options import WriterOptions

# Nothing polls between two tasks, and statistics would pile up there.
_OF_TASKS: Final = {"statistics.interval.ms": 0}


def write_rows(
    options: WriterOptions,
    topic: str | None,
    batches: Iterator[pa.RecordBatch],
    *,
    partition: int,
    attempt: int,
) -> tuple[int, str | None]:
    """Return how many rows are written, and what the driver reports if the others never will be.

    `topic` is that of all rows, None where a column has it; `partition` is the frame's. Raises
    `EndpointError` if the broker writes nothing for too long.
    """
    if attempt:
        LOG.warning(
            "Attempt %d for the frame's partition %d: its rows are sent again. Those that the attempt before"
            " has sent may be there twice.",
            attempt + 1,
            partition,
        )
    try:
        return _written(options, topic, batches, partition), None
    except TooLateError as late:
        raise EndpointError(str(late)) from None
    except EhkafkaError as refused:
        return 0, as_text(refused)


def _written(
    options: WriterOptions, topic: str | None, batches: Iterator[pa.RecordBatch], partition: int
) -> int:
    endpoint = options.endpoint.endpoint()
    with KEPT.used(options.endpoint, lambda: WriterProducer(endpoint, **_OF_TASKS)) as producer:
        producer.begin(options.timeout_s)
        rules = Rules(topic, output_bytes_max(endpoint, SETTINGS), partition, producer.partitions_of)
        sending = RowSender(producer, rules)
        rows = 0
        for batch in batches:
            for portion in portions(batch, rows, rules):
                sending.send(portion)
            rows += batch.num_rows
        sending.drain()
        return sending.written
