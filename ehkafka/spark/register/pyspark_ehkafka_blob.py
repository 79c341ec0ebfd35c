"""Makes `format("ehkafka-blob")` known to Spark, which looks for `DefaultSource` in modules `pyspark_*`.

Shipped as a top-level module. Spark's look-up process imports it, and each process that unpickles the class.
"""

from ehkafka.spark.sink.data_source import BlobDataSource as DefaultSource

__all__ = ["DefaultSource"]
