"""The columns as Spark and Arrow have them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from ehkafka.ranges.batches import arrow_schema
from ehkafka.ranges.options import NAMES
from ehkafka.spark.source.data_source import TYPES


def test_the_arrow_schema_is_the_one_that_spark_makes_of_ours() -> None:
    """Trap: the first Arrow batch must match the schema exactly (`timestamp[us, tz=UTC]`)."""
    from pyspark.sql import types  # noqa: PLC0415 - an extra
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    kinds = {
        "BINARY": types.BinaryType(),
        "STRING": types.StringType(),
        "INT": types.IntegerType(),
        "BIGINT": types.LongType(),
        "TIMESTAMP": types.TimestampType(),
        "ARRAY<STRUCT<key: STRING, value: BINARY>>": types.ArrayType(
            types.StructType().add("key", "string").add("value", "binary")
        ),
    }
    ours = types.StructType([types.StructField(name, kinds[kind]) for name, kind in TYPES.items()])
    assert to_arrow_schema(ours, timezone="UTC").equals(arrow_schema(NAMES))
