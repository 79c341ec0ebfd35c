"""A driver that is killed by its test: an app on a session of its own, over a checkpoint, until it has all.

Arguments: bootstrap, group, topic, journal, checkpoint, records. Prints a line when the query runs.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import ehkafka


def _app(bootstrap: str, group: str, topic: str, journal: str) -> ehkafka.App:
    app = ehkafka.App(group=group, start="earliest", endpoint=ehkafka.Endpoint.kafka(bootstrap))

    @app.handler(topic, workers=4, to=f"{topic}.out")
    def handle(record: ehkafka.Record) -> bytes | None:
        file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            key = (record.key() or b"").decode()
            os.write(file, f"{topic} {record.partition()} {record.offset()} {key} {os.getpid()}\n".encode())
        finally:
            os.close(file)
        return record.value()

    return app


def main() -> None:
    """Run until every record is handled."""
    bootstrap, group, topic, journal, checkpoint = sys.argv[1:6]
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    app = _app(bootstrap, group, topic, journal)
    run = app.run_on_spark(spark, checkpoint=checkpoint, available_now=True, max_records_per_batch=500)
    print("running", flush=True)  # noqa: T201 - what the test waits for
    run.wait()
    print("done", flush=True)  # noqa: T201 - likewise
    spark.stop()


if __name__ == "__main__":
    main()
