"""A frame's columns: which are parts of a message, and which of their types cannot be."""

from __future__ import annotations

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.spark.writer.columns import check_columns, check_topic

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
    assert check_columns(given) == {"key", "value", "headers", "partition", "topic"}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ([], "no column value, which is what ehkafka writes; the frame's columns are: none"),
        ([("key", "string"), ("Value", "string")], "the frame's columns are: key, Value"),
        ([("value", "struct<a:int>")], "write to_json(value) AS value"),
        ([("value", "int")], "Column value is of type int, and ehkafka writes binary or string there: cast"),
        ([("value", "string"), ("value", "string")], "Two columns are called value"),
        ([("value", "string"), ("key", "bigint")], "Column key is of type bigint"),
        ([("value", "string"), ("topic", "binary")], "cast topic to string"),
        ([("value", "string"), ("partition", "bigint")], "cast it to int"),
        ([("value", "string"), ("headers", "map<string,binary>")], "an array of structs with key"),
    ],
)
def test_other_columns_are_refused_with_what_to_write(columns: list[tuple[str, str]], says: str) -> None:
    """The sentence names the column and its type."""
    with pytest.raises(ConfigurationError) as refused:
        check_columns(columns)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "option", "of_endpoint", "topic"),
    [
        ({"value", "topic"}, "named", "path", "named"),
        ({"value", "topic"}, None, "path", None),
        ({"value"}, None, "path", "path"),
    ],
)
def test_the_option_counts_first_then_the_column(
    columns: set[str], option: str | None, of_endpoint: str | None, topic: str | None
) -> None:
    """The connection string's entity comes last."""
    assert check_topic(frozenset(columns), option, of_endpoint) == topic


def test_no_topic_anywhere_is_refused() -> None:
    """Before the first task."""
    with pytest.raises(ConfigurationError, match="No topic is named: give the option topic, or a column"):
        check_topic(frozenset({"value"}), None, None)
