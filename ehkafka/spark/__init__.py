"""Kafka and Event Hubs records on Apache Spark through PySpark, without a JAR.

`source/` is the data source of `spark.readStream.format("ehkafka")` and `spark.read.format("ehkafka")`;
`secrets` names the way to the broker so that no secret is in a plan, a checkpoint or a log; `versions`
says which PySpark is there, `java_home` which Java; `jvm_options` makes the options of the JVM's connector.
Importing this room needs no PySpark; using it does.

The driver plans (Spark's planning process, one thread); each task reads its pieces in a worker process.
Nothing here joins a consumer group.
"""

from __future__ import annotations

from ehkafka.spark.formats import register_formats
from ehkafka.spark.java_home import find_java_home
from ehkafka.spark.jvm_options import kafka_options
from ehkafka.spark.source.lag import lag

__all__ = ["find_java_home", "kafka_options", "lag", "register_formats"]
