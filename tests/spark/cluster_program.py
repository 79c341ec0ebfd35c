"""What the cluster's test submits: the source, a look at where the code came from, the sink."""

from __future__ import annotations

import sys

import pyarrow as pa
from pyspark.sql import SparkSession

from ehkafka.spark import register_formats


def where(batches):  # noqa: ANN001, ANN201 - runs in executors, without this module
    """Add where a task's ehkafka was loaded from, and where the executor works."""
    from pathlib import Path  # noqa: PLC0415

    import ehkafka  # noqa: PLC0415

    for batch in batches:
        columns = {
            "value": batch.column(0).cast(pa.string()),
            "code": pa.array([ehkafka.__file__] * batch.num_rows),
            "executor": pa.array([str(Path.cwd())] * batch.num_rows),
        }
        yield pa.record_batch(columns)


def main(bootstrap: str, topic: str, container: str, checkpoint: str) -> None:
    """Copy a topic into a container."""
    spark = SparkSession.builder.appName("cluster").getOrCreate()
    # What --py-files ships is not found by Spark's own look-up.
    register_formats(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    read = spark.readStream.format("ehkafka").options(**options).load()
    rows = read.select("value").mapInArrow(where, "value string, code string, executor string")
    writer = rows.writeStream.format("ehkafka-blob").option("container", container)
    writer = writer.option("connectionStringEnv", "CLUSTER_STORAGE").option("path", "copied")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
