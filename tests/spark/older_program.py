"""What an older PySpark can do with this package, and what it hears where it cannot. Prints JSON.

Run by `test_older_pyspark` in an environment of its own. Arguments: bootstrap, a folder, and the options by
which the sink finds its container, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import ehkafka
from ehkafka.spark import lag, register_formats, start
from ehkafka.spark.unread import columns_read

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

LIMIT = "20"
DATA_SOURCES_SINCE = 4


def main(bootstrap: str, folder: str, container: str) -> None:
    """Do all of it on one topic."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    app = ehkafka.App(group="older", start="earliest", endpoint=ehkafka.Endpoint.kafka(bootstrap))
    app.handler("readings")(lambda _record: None)
    found: dict[str, Any] = {"version": spark.version}
    found["engine"] = _refused(lambda: found.update(handled=_handled(app, spark)))
    if int(spark.version[0]) < DATA_SOURCES_SINCE:
        found["formats"] = _refused(lambda: register_formats(spark))
    else:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "readings"}
        lags: list[dict[str, Any]] = []
        found["runs"] = [_run(spark, options, f"{folder}/runs", more, lags) for more in (0, 7)]
        found["lags"] = lags
        found["batch"] = spark.read.format("ehkafka").options(**options).load().count()
        values = spark.readStream.format("ehkafka").options(**options).load().select("value")
        found["read"] = columns_read(values)
        found["now"] = _available_now(spark, options, f"{folder}/now")
        found["sink"] = _refused(lambda: _copied(spark, options, f"{folder}/sink", json.loads(container)))
    print(json.dumps(found))  # noqa: T201 - its answer
    spark.stop()


def _handled(app: ehkafka.App, spark: Any) -> int:
    """Run the app up to the ends of the logs, by batches of 20; return how many records it finished."""
    run = app.run_on_spark(spark, available_now=True, max_records_per_batch=int(LIMIT))
    run.wait()
    return run.counts["finished"]


def _refused(do: Callable[[], object]) -> str:
    """Return what is said against it; nothing when it went well."""
    try:
        do()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _run(
    spark: Any, options: dict[str, str], folder: str, more: int, lags: list[dict[str, Any]]
) -> list[list[list[int]]]:
    from confluent_kafka import Producer  # noqa: PLC0415 - after the session, as a user may

    if more:
        producer = Producer({"bootstrap.servers": options["kafka.bootstrap.servers"]})
        for _ in range(more):
            producer.produce("readings", b"v", partition=0)
        producer.flush(10)
    batches: dict[int, list[list[int]]] = {}

    def keep(frame: DataFrame, batch_id: int) -> None:
        batches[batch_id] = [list(row) for row in frame.select("partition", "offset").collect()]

    source = spark.readStream.format("ehkafka").options(**options, startingOffsets="earliest")
    writer = source.option("maxOffsetsPerTrigger", LIMIT).load().writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", folder).trigger(processingTime="0 seconds")

    query = start(writer)
    query.processAllAvailable()
    progress = query.lastProgress
    asked = sum(lag(progress, options).values())
    lags.append({"asked": asked, "refused": _refused(lambda: lag(progress))})
    query.stop()
    return [batches[batch] for batch in sorted(batches)]


def _available_now(spark: Any, options: dict[str, str], folder: str) -> dict[str, Any]:
    """Return how many records each batch of a query with that trigger reads, and what is said of no topic."""
    counts: list[int] = []
    source = spark.readStream.format("ehkafka").options(**options, startingOffsets="earliest")
    source = source.option("maxOffsetsPerTrigger", LIMIT)
    writer = source.load().writeStream.foreachBatch(lambda frame, _: counts.append(frame.count()))
    writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
    refused = _refused(lambda: start(writer).awaitTermination())
    wrong = spark.readStream.format("ehkafka").options(**{**options, "subscribe": "raedings"}).load()
    writer_of_none = wrong.writeStream.format("noop").option("checkpointLocation", f"{folder}-wrong")
    return {"counts": counts, "refused": refused, "wrong topic": _refused(lambda: start(writer_of_none))}


def _copied(spark: Any, options: dict[str, str], folder: str, container: dict[str, str]) -> None:
    """Copy the topic into the container."""
    source = spark.readStream.format("ehkafka").options(**options, startingOffsets="earliest")
    rows = source.load().selectExpr("partition", "offset", "cast(value as string) value")
    writer = rows.writeStream.format("ehkafka-blob").options(**container, path="copied")
    writer = writer.option("checkpointLocation", Path(folder).as_uri())
    query = start(writer)
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
