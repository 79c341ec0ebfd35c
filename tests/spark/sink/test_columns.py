"""What a file cannot hold is reported before the first batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as t

from ehkafka.errors import ConfigurationError
from ehkafka.spark.sink.columns import check_columns

if TYPE_CHECKING:
    from ehkafka.spark.sink.options import FileFormat

TEXT = t.StringType()


class Flag(t.UserDefinedType):
    """A type of a user's own, which Spark sends as bytes."""

    @classmethod
    def sqlType(cls) -> t.DataType:  # noqa: N802 - of Spark
        """Return what it is made of."""
        return t.BinaryType()


class Flags(t.UserDefinedType):
    """A type of a user's own, which Spark sends as a map."""

    @classmethod
    def sqlType(cls) -> t.DataType:  # noqa: N802 - of Spark
        """Return what it is made of."""
        return t.MapType(t.BinaryType(), TEXT)


def schema(kind: t.DataType) -> t.StructType:
    """Return a column `c` of the type, below a list and a struct."""
    return t.StructType([t.StructField("in", t.ArrayType(t.StructType([t.StructField("c", kind)])))])


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
@pytest.mark.parametrize("kind", [t.YearMonthIntervalType(), t.CalendarIntervalType(), t.VariantType()])
def test_types_without_a_form_are_refused(kind: t.DataType, file_format: FileFormat) -> None:
    """Arrow's Python cannot read them: the first task would fail."""
    with pytest.raises(ConfigurationError, match=r"'in\.c' is of type .*to_json or cast"):
        check_columns(schema(kind), file_format)


def test_the_types_of_a_users_own_type_count() -> None:
    """Spark sends what it is made of."""
    with pytest.raises(ConfigurationError, match=r"'in\.c' is a map<binary,string>"):
        check_columns(schema(Flags()), "jsonl")
    with pytest.raises(ConfigurationError, match="transform_keys"):
        check_columns(schema(t.MapType(Flag(), TEXT)), "jsonl")


def test_a_struct_without_fields_is_refused_where_the_format_has_none() -> None:
    """Parquet has no empty groups; JSON has empty objects."""
    with pytest.raises(ConfigurationError, match=r"'in\.c' is a struct without fields"):
        check_columns(schema(t.StructType()), "parquet")
    check_columns(schema(t.StructType()), "jsonl")


def test_a_stream_without_columns_or_with_one_name_twice_is_refused() -> None:
    """Rows of nothing would be lost."""
    with pytest.raises(ConfigurationError, match="no columns"):
        check_columns(t.StructType(), "jsonl")
    with pytest.raises(ConfigurationError, match=r"'in\.c\.n'; rename"):
        check_columns(schema(t.StructType([t.StructField("n", TEXT)] * 2)), "jsonl")


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
def test_what_has_a_form_is_taken(file_format: FileFormat) -> None:
    """Times of day, intervals of days, and maps by any name that can be text."""
    kinds = [
        *(t.DayTimeIntervalType(), t.DecimalType(38, 9), t.TimestampNTZType(), t.NullType()),
        *(t.MapType(key, TEXT) for key in (t.DateType(), t.DoubleType(), t.TimestampType(), TEXT)),
    ]
    for kind in kinds:
        check_columns(schema(kind), file_format)
