"""W18: all columns of a topic into one Parquet file, batch by batch.

Both sides write the same rows by the same writer; the loops build their columns by pyarrow, as well as we can
by hand: a list for each column, and one conversion for each batch.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq
from _bench_marks import BEGIN, END, mark

import ehkafka
import ehkafka.arrow
from ehkafka.ranges.batches import BATCH_RECORDS, arrow_schema
from ehkafka.ranges.options import WITHOUT_HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# What one `consume()` takes: with more a record costs a fifth more, with fewer a call costs too much.
CONSUME_RECORDS = 2_000


def arrow_to_parquet(bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    """Read by `ehkafka.arrow`."""
    mark(BEGIN)
    started_s = time.perf_counter()
    reader = ehkafka.arrow.read(ehkafka.Endpoint.kafka(bootstrap), topic, start="earliest")
    return _written(reader, reader.schema, started_s, records)


def loop_to_parquet(bootstrap: str, topic: str, records: int, *, by: str) -> dict[str, Any]:
    """Read by a loop over `consume()` or `poll()`."""
    gc.disable()  # messages make no cycles
    mark(BEGIN)
    started_s = time.perf_counter()
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": "table",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.Consumer(properties)
    numbers = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in numbers])
    schema = arrow_schema(WITHOUT_HEADERS)
    lists = _consumed(consumer, records) if by == "consume" else _polled(consumer, records)
    result = _written(_batches(lists, schema), schema, started_s, records)
    consumer.close()
    return result


def _written(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, started_s: float, records: int
) -> dict[str, Any]:
    rows = 0
    with tempfile.TemporaryDirectory() as folder:
        with pq.ParquetWriter(Path(folder) / "topic.parquet", schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        took_s = time.perf_counter() - started_s
        mark(END)
    assert rows == records, f"{rows} rows of {records} records"
    return {"records": rows, "records_per_s": rows / took_s}


def _consumed(consumer: confluent_kafka.Consumer, records: int) -> Iterator[list[Any]]:
    seen = 0
    while seen < records:
        waiting: list[Any] = []
        while len(waiting) < BATCH_RECORDS and seen < records:
            got = consumer.consume(min(CONSUME_RECORDS, records - seen), 1.0)
            waiting += got
            seen += len(got)
        yield waiting


def _polled(consumer: confluent_kafka.Consumer, records: int) -> Iterator[list[Any]]:
    seen = 0
    while seen < records:
        waiting: list[Any] = []
        while len(waiting) < BATCH_RECORDS and seen < records:
            if (message := consumer.poll(1.0)) is not None:
                waiting.append(message)
                seen += 1
        yield waiting


def _batches(lists: Iterable[list[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    read: dict[str, Callable[[list[Any]], list[Any]]] = {
        name: (lambda messages, name=name: [getattr(message, name)() for message in messages])
        for name in ("key", "value", "topic", "partition", "offset")
    }
    for messages in lists:
        times = [message.timestamp() for message in messages]
        columns = {
            **{name: column(messages) for name, column in read.items()},
            "timestamp": [milliseconds * 1000 for _, milliseconds in times],
            "timestampType": [kind - 1 for kind, _ in times],
        }
        yield pa.RecordBatch.from_arrays(
            [pa.array(columns[name], kind) for name, kind in zip(schema.names, schema.types, strict=True)],
            schema=schema,
        )
