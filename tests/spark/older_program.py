"""A stream on whichever PySpark runs this: batches of a limit, a restart, what is new. Prints JSON.

Run by `test_older_pyspark` in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMIT = "20"


def main(bootstrap: str, folder: str) -> None:
    """Read all there is in two runs of one checkpoint."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "readings"}
    runs = [_run(spark, options, folder, more) for more in (0, 7)]
    batch = spark.read.format("ehkafka").options(**options).load().count()
    print(json.dumps({"version": spark.version, "runs": runs, "batch": batch}))  # noqa: T201 - its answer
    spark.stop()


def _run(spark: Any, options: dict[str, str], folder: str, more: int) -> list[list[list[int]]]:
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
    query = writer.option("checkpointLocation", folder).trigger(processingTime="0 seconds").start()
    query.processAllAvailable()
    query.stop()
    return [batches[batch] for batch in sorted(batches)]


if __name__ == "__main__":
    main(*sys.argv[1:])
