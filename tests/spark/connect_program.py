"""What a client of Spark Connect does with this package. Prints JSON.

Run by `test_older_pyspark` in an environment of its own, because classic and remote sessions do not share a
process. The server is Spark's own, on this machine. Arguments: bootstrap and a folder.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from ehkafka.spark import lag, observe, start

if TYPE_CHECKING:
    from collections.abc import Callable

STACK_OF_JAVA = "\n\nJVM stacktrace:"  # shown where SPARK_TESTING is set


def main(bootstrap: str, folder: str) -> None:
    """Read, write, run a query to its end, and be refused."""
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "readings"}
    read = spark.read.format("ehkafka").options(**options)
    found: dict[str, Any] = {"version": spark.version, "batch": read.load().count()}
    found["now"] = _to_its_end(spark, options, folder)
    found["written"] = _written(spark, options)
    stream = spark.readStream.format("ehkafka").options(**options)
    writer = stream.option("subscribe", "raedings").load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", f"{folder}/wrong")
    found["wrong topic"] = _refused(lambda: start(writer))
    found["wrong option"] = _refused(lambda: read.option("startingOfsets", "latest").load().schema)
    no_value = spark.range(3).write.format("ehkafka").options(**_target(options)).mode("append")
    found["no value"] = _refused(no_value.save)
    rows = stream.load().writeStream.format("ehkafka").options(**_target(options))
    rows = rows.option("checkpointLocation", f"{folder}/speculation")
    found["speculation"] = _refused(lambda: start(rows))
    print(json.dumps(found))  # noqa: T201 - its answer
    spark.stop()


def _to_its_end(spark: Any, options: dict[str, str], folder: str) -> dict[str, Any]:
    source = spark.readStream.format("ehkafka").options(**options, startingOffsets="earliest")
    rows = source.option("maxOffsetsPerTrigger", "20").load().select("partition", "offset")
    writer = rows.writeStream.format("parquet").option("path", f"{folder}/rows")
    writer = writer.option("checkpointLocation", f"{folder}/now").trigger(availableNow=True)
    query = start(writer)
    query.awaitTermination()
    shown = observe(query, options).snapshot()
    return {
        "rows": spark.read.parquet(f"{folder}/rows").distinct().count(),
        "lag": sum(lag(query.lastProgress, options).values()),
        "shown": [one.lag_records for one in shown.partitions],
        "has batch time": shown.batch_s is not None,
    }


def _written(spark: Any, options: dict[str, str]) -> list[list[str]]:
    target = _target(options)
    rows = spark.range(30).selectExpr("cast(id as string) key", "cast(id * id as string) value")
    rows.write.format("ehkafka").options(**target).mode("append").save()
    back = spark.read.format("ehkafka").options(**{**options, "subscribe": target["topic"]}).load()
    return sorted(map(list, back.selectExpr("cast(key as string)", "cast(value as string)").collect()))


def _target(options: dict[str, str]) -> dict[str, str]:
    return {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"], "topic": "squares"}


def _refused(do: Callable[[], object]) -> str:
    """Return what is said against it, up to what Java adds; nothing when it went well."""
    try:
        do()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(STACK_OF_JAVA)[0]}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
