"""Count each home's readings in Spark: `python examples/spark/app.py`."""

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users call it

import ehkafka
import ehkafka.spark
from ehkafka.testing import EmbeddedBroker

os.environ.setdefault("JAVA_HOME", str(ehkafka.spark.find_java_home()))

with EmbeddedBroker({"readings": 4}) as broker:
    broker.produce("readings", [(f"home-{number % 3}", b"21.5") for number in range(300)])
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    readings = (
        spark.read.format("ehkafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", "readings")
        .option("columns", "key,value")
        .load()
    )
    counts = readings.groupBy(F.col("key").cast("string").alias("home")).count().orderBy("home")
    for row in counts.collect():
        print(row.home, row["count"])
    spark.stop()
