"""What the cluster's test submits: an app's handlers on the engine, then the source into the sink."""

from __future__ import annotations

import os
import sys

from cluster_app import app
from pyspark.sql import SparkSession

from ehkafka.spark import register_formats


def main(container: str, checkpoints: str) -> None:
    """Handle a topic's records, then copy them into a container."""
    spark = SparkSession.builder.appName("cluster").getOrCreate()
    run = app.run_on_spark(spark, checkpoint=f"{checkpoints}/app", available_now=True)
    run.wait()
    print("handled", run.counts["finished"])  # noqa: T201 - the test reads it
    # What --py-files ships is not found by Spark's own look-up.
    register_formats(spark)
    options = {
        "kafka.bootstrap.servers": os.environ["EHKAFKA_BOOTSTRAP"],
        "subscribe": os.environ["CLUSTER_TOPIC"],
        "startingOffsets": "earliest",
    }
    rows = (
        spark.readStream.format("ehkafka").options(**options).load().selectExpr("cast(value as string) value")
    )
    writer = rows.writeStream.format("ehkafka-blob").option("container", container).option("path", "copied")
    writer = writer.option("connectionStringEnv", "CLUSTER_STORAGE")
    query = writer.option("checkpointLocation", f"{checkpoints}/copy").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
