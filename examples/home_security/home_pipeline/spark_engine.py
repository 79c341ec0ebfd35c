"""The pipeline on Spark: `format("ehkafka")` in, windows per home in Spark SQL, `format("ehkafka-blob")` out.

    python -m home_pipeline.spark_engine     # or spark-submit, on a cluster

All native SQL: no Python function sees a reading. A window's row is written once, when the watermark has
passed its end, and then never changes (output mode append). Spark keeps the offsets in its checkpoint: when
the process is started again with the same one, it goes on where it was. Settings as in `local_engine`, and
HOME_SECURITY_CHECKPOINT, a folder.

Meanwhile, in the same session, the app of `alerts` runs in tasks of its own: what calls Python for each
reading, and sends. Spark keeps no offsets for that one: it commits for its group, as a consumer does.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import ehkafka
import ehkafka.spark
from ehkafka.errors import EhkafkaError
from home_pipeline import alerts, rules
from home_pipeline.container import CONTAINER, STORAGE, open_container
from home_pipeline.keeper import STARTED
from home_pipeline.layout import MANIFEST
from home_pipeline.local_engine import GROUP
from home_pipeline.readings import SPOILT, TOPIC
from home_pipeline.stage import HERE, when_input_ends

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PATH = "spark"
READING = "struct<home:string, kind:string, unit:string, at:bigint, value:double, alarm:boolean>"
MANIFEST_OF = re.compile(rf"{PATH}/batch=([0-9]+)/{MANIFEST}")
TRIGGER_S = 3
POLL_S = 0.2
_log = logging.getLogger("home-security")


def counted(records: DataFrame, windows: rules.Windows) -> DataFrame:
    """Return the rows of `layout` for records with the columns `key`, `value` and `timestamp`.

    `rules.counted` in SQL: a record's own reading, else a spoilt one of the home that is its key.
    """
    own = F.struct("home", "kind", "unit", "at", "value", "alarm")
    spoilt = F.struct("key", F.lit(SPOILT), F.lit(""), "sent", F.lit(1.0), F.lit(False)).cast(READING)
    readings = (
        records.select(
            F.col("key").cast("string").alias("key"),
            F.unix_micros("timestamp").alias("sent"),
            F.from_json(F.col("value").cast("string"), READING).alias("reading"),
        )
        .select("key", "sent", "reading.*")
        .withColumn("unit", F.coalesce("unit", F.lit("")))
        .select(F.when(_believed(), own).when(_is_home("key") & _is_of_now("sent"), spoilt).alias("counted"))
        .where("counted is not null")
        .select("counted.*")
        .withColumn("taken", F.timestamp_micros("at"))
        .withWatermark("taken", f"{windows.delay_s} seconds")
    )
    window = F.window("taken", f"{windows.length_s} seconds")
    return (
        readings.groupBy("home", "kind", "unit", window)
        .agg(
            F.count("*").alias("readings"),
            F.sum(F.col("alarm").cast("int")).alias("alarms"),
            F.sum("value").alias("total"),
            F.min("value").alias("low"),
            F.max("value").alias("high"),
            F.max_by("value", F.struct("at", "value")).alias("last"),
            F.max("at").alias("last_at_us"),
            F.max(F.when(F.col("alarm"), F.col("at"))).alias("alarm_at_us"),
        )
        .select(
            "home",
            "kind",
            "unit",
            F.unix_timestamp("window.start").alias("begin_s"),
            F.lit(windows.length_s).alias("length_s"),
            "readings",
            F.coalesce("alarms", F.lit(0)).alias("alarms"),
            "total",
            "low",
            "high",
            "last",
            "last_at_us",
            F.coalesce("alarm_at_us", F.lit(0)).alias("alarm_at_us"),
        )
    )


def writer(
    spark: SparkSession,
    bootstrap: str,
    container: str,
    checkpoint: str,
    *,
    windows: rules.Windows,
    trigger: dict[str, Any],
    most: int,
) -> DataStreamWriter:
    """Return the query's writer: it begins at the topic's beginning, or where the checkpoint says."""
    records = (
        spark.readStream.format("ehkafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("columns", "key,value,timestamp")
        # For those who look at the group's lag: where to continue is in the checkpoint.
        .option("groupId", GROUP)
        .option("commitOffsets", "true")
        # Several partitions a task, as many tasks as there are cores.
        .option("tasks", spark.sparkContext.defaultParallelism)
        .option("maxOffsetsPerTrigger", most)
    )
    return (
        counted(records.load(), windows)
        .writeStream.format("ehkafka-blob")
        # The secret's name, never the secret: it is in no plan, no log and no checkpoint.
        .option("connectionStringEnv", STORAGE)
        .option("container", container)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .trigger(**trigger)
        .queryName("home-security")
        .option("path", PATH)
    )


def go_back(container: ContainerClient, checkpoint: Path) -> None:
    """Let the query continue behind the last batch that the store has, if the store has forgotten later ones.

    Spark runs a batch again that is in its `offsets`, but not in its `commits`, with the `state` before it.
    """
    names = [blob.name for blob in container.list_blobs(name_starts_with=f"{PATH}/")]
    batches = [int(found[1]) for found in map(MANIFEST_OF.fullmatch, names) if found]
    last = max(batches, default=-1)
    if not (checkpoint / "offsets" / str(last + 1)).exists():
        return  # nothing was forgotten, or more than the checkpoint can tell
    for file in checkpoint.rglob("[0-9]*"):
        number = int(file.name.partition(".")[0])
        if file.is_file() and number > last + (file.parent.name != "commits"):
            file.unlink()


def _believed() -> Column:
    """Say `rules.parse` in SQL: the same patterns, the same bounds."""
    return (
        _is_home("home")
        & F.col("kind").rlike(rf"\A{rules.KIND}\z")
        & (F.col("kind") != SPOILT)
        & F.col("unit").rlike(rf"\A{rules.UNIT}\z")
        & (F.abs(F.col("at") - F.col("sent")) <= rules.CLOCK_TOLERANCE_US)
        & _is_of_now("at")
        & (F.abs("value") <= rules.LARGEST)
    )


def _is_home(column: str) -> Column:
    return F.col(column).rlike(rf"\A{rules.HOME}\z")


def _is_of_now(column: str) -> Column:
    return F.col(column).between(0, rules.LATEST_MS * 1000 - 1)


def session(cores: str = "local[2]") -> SparkSession:
    """Return a session on this machine, or the one that spark-submit made."""
    return (
        SparkSession.builder.master(cores)
        .appName("home-security")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # Batches, not answers: a tenth quicker on two cores than collecting and compressing as Spark does.
        .config("spark.driver.extraJavaOptions", "-XX:+UseParallelGC")
        .config("spark.shuffle.compress", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # As many parts as cores: each costs a task and a blob in every batch.
        .config("spark.sql.shuffle.partitions", "2")
        # The checkpoint's old batches: the demo needs none of them.
        .config("spark.sql.streaming.minBatchesToRetain", "10")
        .getOrCreate()
    )


def watch(spark: SparkSession, query: StreamingQuery, stop: threading.Event) -> Exception | None:
    """Run the alerts along with the query until one ends or a stop is asked for; return what ended it."""
    app = alerts.make_app(ehkafka.Endpoint.kafka(os.environ["HOME_SECURITY_BOOTSTRAP"]))
    failure: Exception | None = None
    try:
        # One after the other: on a busy machine Spark may not wait for two Python processes that start.
        while query.isActive and query.lastProgress is None and not stop.wait(POLL_S):
            pass
        if query.isActive and not stop.is_set():
            _log.info("The alerts start: %s.", STARTED)
            with app.run_on_spark(spark, interval_s=TRIGGER_S, folders=(str(HERE),)) as run:
                while query.isActive and run.is_running and not stop.wait(POLL_S):
                    pass
    except EhkafkaError as error:
        failure = error
    failure = query.exception() or failure
    query.stop()
    return failure


def main() -> int:
    """Run until a signal, or until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--while-stdin", action="store_true", help="end when standard input ends")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if options.while_stdin:
        when_input_ends(stop.set)
    # Only the steps of the start: Spark's own words go elsewhere.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", stream=sys.stdout)
    for steps in (_log, logging.getLogger("ehkafka.spark")):
        steps.setLevel(logging.INFO)
    _log.info("Spark starts its JVM.")
    spark = session(options.master)
    spark.sparkContext.setLogLevel("ERROR")
    _log.info("Spark %s is up, %s.", spark.version, options.master)
    wanted = writer(
        spark,
        os.environ["HOME_SECURITY_BOOTSTRAP"],
        os.environ[CONTAINER],
        os.environ["HOME_SECURITY_CHECKPOINT"],
        windows=rules.Windows(length_s=int(os.environ.get("HOME_SECURITY_WINDOW_S", "10"))),
        trigger={"processingTime": f"{TRIGGER_S} seconds"},
        most=1_000_000,
    )
    try:
        with open_container() as container:
            go_back(container, Path(os.environ["HOME_SECURITY_CHECKPOINT"]))
        query = ehkafka.spark.start(wanted)
    except (AzureError, EhkafkaError) as error:
        print(f"the query did not start: {error}", file=sys.stderr)
        return 1
    failure = watch(spark, query, stop)
    spark.stop()
    if failure is not None:
        print(f"the query ended: {failure}", file=sys.stderr)
    return 1 if failure is not None else 0


if __name__ == "__main__":
    sys.exit(main())
