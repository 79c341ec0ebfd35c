"""Registers the format `ehkafka` with PySpark, which looks for top-level modules named `pyspark_*`.

Shipped at the top level of the wheel. Imported by Spark in a Python process next to the driver.
"""

from ehkafka.spark.source.data_source import EhkafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
