"""W11: our Spark source and writer compared with Spark's own Kafka connector, in one session, on one topic.

One measurement does every kind of work with every reader in turn, because a session takes long to start and
its first queries are slow. A figure is records per second of a query's batches, as Spark's progress tells
them; what starting the query takes stands next to it. Run by `_bench_work` in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from _bench_cpu import take_sample
from _bench_marks import BEGIN, END, mark
from _bench_row import OUTPUTS

import ehkafka
from ehkafka.spark import kafka_options
from ehkafka.spark.java_home import find_java_home
from ehkafka.testing.kafka.jars import connector_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CORES = os.cpu_count() or 1
# Batches of a fifth of all records: of 200 000 where there are a million.
BATCHES = 5
JVM, TUNED, OURS, ENGINE = "jvm", "jvm_tuned", "ehkafka", "engine"
READERS = (JVM, TUNED, OURS)
# What the JVM sink is given where it is tuned: larger batches, for which it waits.
TUNED_SINK = {"kafka.linger.ms": "20", "kafka.batch.size": "524288"}
# In the order in which they are measured.
WORK = {
    "one_batch": READERS,
    "value": READERS,
    "batches": READERS,
    "count": READERS,
    "handler": (*READERS, ENGINE),
}
# Queries that use the value alone and say so with `columns`, which Spark's own connector does not have.
VALUE_ALONE = {"value", "count", "handler"}


def spark_sources(bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    """Do all the work with all readers; `<work>_<reader>` are records per second, `details` the seconds.

    `<work>_<reader>_cpu_s` are CPU seconds per million records of the whole query, the JVM and Spark's Python
    workers included.
    """
    folder = Path(tempfile.mkdtemp(prefix="ehkafka-bench-"))
    found: dict[str, Any] = {"details": {}, "records": records}
    session = _session(folder)
    try:
        bench = _Bench(session, bootstrap, topic, records, folder)
        for count in (False, True):  # the first time for the compilers of the JVM
            if count:
                mark(BEGIN)
            for work, readers in WORK.items():
                for reader in readers:
                    took = bench.run(work, reader)
                    if not count:
                        continue
                    found[f"{work}_{reader}"] = records / took["batches_s"]
                    found[f"{work}_{reader}_cpu_s"] = took["cpu_s"] / records * 1e6
                    found["details"][f"{work}_{reader}"] = took
        mark(END)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def spark_writers(bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    """Write the keys and values of a topic by each sink in turn, out of the session's memory.

    `write_<sink>` are records per second of a whole `save()`, `write_<sink>_cpu_s` CPU seconds per million.
    """
    folder = Path(tempfile.mkdtemp(prefix="ehkafka-bench-"))
    found: dict[str, Any] = {"records": records}
    session = _session(folder)
    try:
        given = {"kafka.bootstrap.servers": bootstrap}
        rows = session.read.format("kafka").options(**given, subscribe=topic).load().select("key", "value")
        assert rows.persist().count() == records
        for count in (False, True):  # the first time for the compilers of the JVM
            if count:
                mark(BEGIN)
            for sink in READERS:
                before_s, started_s = _cpu_s(), time.perf_counter()
                writer = rows.write.format("ehkafka" if sink == OURS else "kafka").mode("append")
                own = TUNED_SINK if sink == TUNED else {}
                writer.options(**given, **own, topic=OUTPUTS).save()
                found[f"write_{sink}"] = records / (time.perf_counter() - started_s)
                found[f"write_{sink}_cpu_s"] = (_cpu_s() - before_s) / records * 1e6
        mark(END)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return found


class _Bench:
    """The queries of one session."""

    def __init__(self, session: SparkSession, bootstrap: str, topic: str, records: int, folder: Path) -> None:
        self._session, self._bootstrap, self._topic = session, bootstrap, topic
        self._records, self._folder = records, folder

    def run(self, work: str, reader: str) -> dict[str, float]:
        """Run one query to its end; return the seconds of all of it, of its batches and inside of them."""
        before_s, started_s = _cpu_s(), time.perf_counter()
        query = self._engine() if reader == ENGINE else self._query(work, reader)
        whole_s, cpu_s = time.perf_counter() - started_s, _cpu_s() - before_s
        batches = [each for each in query.recentProgress if each.numInputRows]
        seen = sum(each.numInputRows for each in batches)
        # The engine's query has a row for each partition; what it handled is looked at there.
        assert seen == self._records or reader == ENGINE, f"{work}: {reader} read {seen} of {self._records}"
        return {
            "batches_s": sum(each.durationMs["triggerExecution"] for each in batches) / 1000,
            "work_s": sum(each.durationMs["addBatch"] for each in batches) / 1000,
            "whole_s": whole_s,
            "cpu_s": cpu_s,
        }

    def _query(self, work: str, reader: str) -> StreamingQuery:
        options = self._options(reader)
        if work == "batches":
            options["maxOffsetsPerTrigger"] = str(max(1, self._records // BATCHES))
        if work in VALUE_ALONE and reader == OURS:
            options["columns"] = "value"
        rows = self._session.readStream.format("ehkafka" if reader == OURS else "kafka")
        frame = _WORK[work](rows.options(**options).load())
        writer = frame.writeStream.format("noop").outputMode("update" if work == "count" else "append")
        writer = writer.option("checkpointLocation", str(self._folder / uuid.uuid4().hex))
        if work == "batches":
            # Before PySpark 4.2 a query with AvailableNow ends after its first batch.
            query = writer.trigger(processingTime="0 seconds").start()
            query.processAllAvailable()
            query.stop()
            return query
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def _options(self, reader: str) -> dict[str, str]:
        options = {"subscribe": self._topic, "startingOffsets": "earliest"}
        if reader == TUNED:
            return {**kafka_options(ehkafka.Endpoint.kafka(self._bootstrap)), **options}
        options["kafka.bootstrap.servers"] = self._bootstrap
        return {**options, "tasks": str(CORES)} if reader == OURS else options

    def _engine(self) -> StreamingQuery:
        app = ehkafka.App(
            group=f"bench-{uuid.uuid4()}", endpoint=ehkafka.Endpoint.kafka(self._bootstrap), start="earliest"
        )
        app.handler(self._topic)(_handler())
        run = app.run_on_spark(
            self._session,
            checkpoint=str(self._folder / uuid.uuid4().hex),
            available_now=True,
            max_records_per_batch=self._records,
        )
        run.wait()
        assert run.counts["finished"] == self._records, run.counts
        return run.query


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of all that it started; 0 where nothing tells."""
    sample = take_sample()
    return 0.0 if sample is None else sample.of_tree(os.getpid())


def _session(folder: Path) -> SparkSession:
    os.environ |= {
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
    }
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only for this measurement

    session = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", str(CORES))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _nothing(frame: DataFrame) -> DataFrame:
    return frame


def _value(frame: DataFrame) -> DataFrame:
    return frame.select("value")


def _count(frame: DataFrame) -> DataFrame:
    """Count JSON values by home."""
    return frame.selectExpr("from_json(cast(value as string), 'home string') r").groupBy("r.home").count()


def _handled(frame: DataFrame) -> DataFrame:
    """Give each record to the handler, in Python; what comes out is nothing but how many there were."""
    handle = _value_handler()

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow  # noqa: PLC0415, ICN001 - in a worker

        for batch in batches:
            for value in batch.column(0).to_pylist():
                handle(value)
            yield pyarrow.record_batch({"n": pyarrow.array([batch.num_rows])})

    return frame.select("value").mapInArrow(each, "n long")


_WORK: dict[str, Callable[[DataFrame], DataFrame]] = {
    "one_batch": _nothing,
    "value": _value,
    "batches": _nothing,
    "count": _count,
    "handler": _handled,
}


# Made by functions, so that they go to workers by value: those cannot import this module.
def _value_handler() -> Callable[[bytes], None]:
    loads = orjson.loads

    def handle(value: bytes) -> None:
        loads(value)

    return handle


def _handler() -> Callable[[ehkafka.Record], None]:
    loads = orjson.loads

    def handle(record):  # noqa: ANN001, ANN202 - hints would be looked up in this module
        loads(record.value())

    return handle


if __name__ == "__main__":
    print(json.dumps(spark_sources(sys.argv[1], sys.argv[2], int(sys.argv[3])), indent=1))
