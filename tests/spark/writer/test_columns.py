"""A frame's columns: which are parts of a message, and which of their types cannot be."""

from __future__ import annotations

import pytest
from pyspark.sql import types

from ehkafka.errors import ConfigurationError
from ehkafka.spark.writer.options import check_columns
from ehkafka.spark.writer.sink import kafka_writer

HEADERS = "array<struct<key:string,value:binary>>"


def test_the_jvm_sinks_columns_are_parts_of_a_message() -> None:
    """Other columns are ignored, as there, whatever their types."""
    given = [
        ("key", "string"),
        ("value", "binary"),
        ("headers", HEADERS),
        ("partition", "int"),
        ("topic", "string collate UTF8_LCASE"),
        ("price", "decimal(10,2)"),
    ]
    check_columns(given)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ([], "no column named value, which ehkafka writes; the frame's columns are: "),
        ([("key", "string"), ("Value", "string")], "the frame's columns are: key, Value"),
        ([("value", "struct<a:int>")], "binary or string: convert it with to_json"),
        ([("value", "int")], "Column value is of type int, but must be of type binary or string: cast"),
        ([("value", "string"), ("value", "string")], "Two columns are called value"),
        ([("value", "string"), ("key", "bigint")], "Column key is of type bigint"),
        ([("value", "string"), ("topic", "binary")], "string: cast it"),
        ([("value", "string"), ("partition", "bigint")], "of type int: cast it"),
        (
            [("value", "string"), ("headers", "map<string,binary>")],
            "array<struct<key:string,value:binary>>: cast it",
        ),
    ],
)
def test_other_columns_are_refused_with_what_to_write(columns: list[tuple[str, str]], says: str) -> None:
    """The sentence names the column and its type."""
    with pytest.raises(ConfigurationError) as refused:
        check_columns(columns)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "option", "topic"),
    [
        ("value STRING, topic STRING", {"topic": "named"}, "named"),
        ("value STRING, topic STRING", {}, None),
        ("value STRING", {}, "of-the-path"),
    ],
)
def test_the_option_counts_first_then_the_column(
    columns: str, option: dict[str, str], topic: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection string's entity comes last."""
    namespace = "Endpoint=sb://homes.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=a2V5"
    monkeypatch.setenv("WRITTEN_TO", f"{namespace};EntityPath=of-the-path")
    schema = types.StructType()
    for column in columns.split(", "):
        schema = schema.add(column.split()[0], types.StringType())
    writer = kafka_writer({"connectionStringEnv": "WRITTEN_TO", **option}, schema, overwrite=False)
    assert writer.options.topic == topic


def test_a_frame_without_a_topic_is_refused() -> None:
    """Neither the option names one, nor a column, nor a connection string."""
    schema = types.StructType().add("value", types.StringType())
    with pytest.raises(ConfigurationError, match="No topic is named: give the option topic"):
        kafka_writer({"kafka.bootstrap.servers": "localhost:9092"}, schema, overwrite=False)
