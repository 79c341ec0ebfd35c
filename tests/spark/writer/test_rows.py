"""Rows become messages, and the first that cannot be one is named before any is sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError, TopicNotFoundError
from ehkafka.spark.writer import rows
from ehkafka.spark.writer.rows import messages, of_messages, portions, wrong_rows
from tests.spark.writer.frames import TYPES, frame


def sent(given: pa.RecordBatch, topic: str | None = "readings") -> list[tuple[Any, ...]]:
    """Return the messages of a batch that may have 872 bytes in a row, for topics with four partitions."""
    batch = of_messages(given)
    for row, kind, text in wrong_rows(batch, topic, 1_000, lambda name, _: 4 * (name == "readings")):
        raise kind(f"Row {row} {text}")
    return list(messages(batch, topic))


def test_a_row_is_a_message_with_its_key_partition_and_headers() -> None:
    """What is null is left out; a null value is a tombstone."""
    batch = frame(
        key=[b"a", None],
        value=[None, b"1"],
        partition=[None, 2],
        headers=[[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None],
    )
    assert sent(batch) == [
        ("readings", None, b"a", -1, [("h", b"x"), ("h", None)]),
        ("readings", b"1", None, 2, None),
    ]


def test_the_option_counts_more_than_the_column() -> None:
    """As with the JVM connector; without the option, each row has its own topic."""
    batch = frame(value=[b"1", b"2"], topic=["readings", None])
    assert [one[0] for one in sent(batch, "readings")] == ["readings", "readings"]
    assert [one[0] for one in sent(batch.slice(0, 1), None)] == ["readings"]


def test_text_that_is_no_utf_8_is_written_as_it_is() -> None:
    """Spark's cast to string keeps any bytes. No topic and no header has such a name."""
    text = pa.array([b"a\xff", None]).view(pa.string())
    batch = pa.record_batch([text, text], names=["key", "value"])
    assert [one[1:3] for one in sent(batch)] == [(b"a\xff", b"a\xff"), (None, None)]
    with pytest.raises(TopicNotFoundError, match=r"^Row 0 names topic 'a\ufffd',"):
        sent(pa.record_batch([text[:1], text[:1]], names=["topic", "value"]), None)
    header = pa.StructArray.from_arrays([text[:1], text[:1].cast(pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 0, 1], pa.int32()), header)
    with pytest.raises(ConfigurationError, match=r"^Row 1 has a header .* no UTF-8"):
        sent(pa.record_batch([text, headers], names=["value", "headers"]))


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=40), st.binary(max_size=40), st.none() | st.integers(0, 3)),
        max_size=40,
    ),
    st.integers(1, 7),
    st.integers(20, 200),
)
def test_portions_have_all_rows_in_their_order(
    given_rows: list[tuple[bytes | None, bytes, int | None]], rows_max: int, bytes_max: int
) -> None:
    """Whatever a portion may have at the most; each has the number of its first row."""
    columns = dict(zip(("key", "value", "partition"), zip(*given_rows, strict=True), strict=False))
    batch = frame(**columns) if columns else frame(value=[])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "PORTION_ROWS", rows_max)
        patch.setattr(rows, "PORTION_BYTES", bytes_max)
        found = list(portions(of_messages(batch)))
    sent_rows = [one for _, portion in found for one in messages(portion, "readings")]
    assert [(key, value, None if at < 0 else at) for _, value, key, at, _ in sent_rows] == given_rows
    starts = [start for start, _ in found]
    assert starts == [sum(one.num_rows for _, one in found[:number]) for number in range(len(found))]
    assert all(1 <= one.num_rows <= rows_max for _, one in found)


@pytest.mark.parametrize(
    ("batch", "topic", "kind", "says"),
    [
        (frame(value=[b"", b""], topic=["readings", None]), None, ConfigurationError, "has no topic"),
        (
            frame(value=[b"", b""], topic=["readings", "reading"]),
            None,
            TopicNotFoundError,
            "names topic 'reading', which does not exist",
        ),
        (
            frame(value=[b"", b""], partition=[None, 4]),
            "readings",
            ConfigurationError,
            "names partition 4 of 'readings', whose partitions are 0 to 3",
        ),
        (frame(value=[b"", b""], partition=[3, -1]), "readings", ConfigurationError, "names partition -1"),
        (
            frame(value=[b"", b"x" * 500], key=[None, b"y" * 373]),
            "readings",
            EndpointError,
            "has 873 bytes with key and headers; the limit is 872",
        ),
        (
            frame(value=[b"x" * 872, b""], headers=[None, [{"key": "n" * 10, "value": b"v" * 863}]]),
            "readings",
            EndpointError,
            "has 873 bytes",
        ),
        (
            frame(value=[b"", b""], headers=[[], [{"key": "a\0b", "value": None}]]),
            "readings",
            ConfigurationError,
            "has a header without a name, or with a NUL",
        ),
        (
            frame(value=[b"", b""], headers=[[], [None]]),
            "readings",
            ConfigurationError,
            "has a header without",
        ),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(
    batch: pa.RecordBatch, topic: str | None, kind: type[EhkafkaError], says: str
) -> None:
    """With its number in the batch."""
    with pytest.raises(kind) as refused:
        sent(batch, topic)
    assert str(refused.value).startswith(f"Row 1 {says}")


def test_text_counts_in_bytes_and_long_types_are_taken() -> None:
    """Spark sends text as text, and with `useLargeVarTypes` as the types with long offsets."""
    names, types = ("key", "value"), (pa.large_string(), pa.large_binary())
    batch = pa.record_batch([pa.array(["é"], types[0]), pa.array([b"x" * 870], types[1])], names=names)
    assert sent(batch) == [("readings", b"x" * 870, "é".encode(), -1, None)]
    with pytest.raises(EndpointError, match="has 873 bytes"):
        sent(pa.record_batch([pa.array(["é"]), pa.array([b"x" * 871])], names=names))


def test_headers_of_a_slice_belong_to_its_rows() -> None:
    """Spark's batches may be parts of longer ones."""
    headers = [[{"key": "a", "value": b"x" * 900}], [], None, [{"key": "b", "value": None}], None]
    batch = pa.record_batch(
        [pa.array([b"1", b"2", b"3", b"4", b"5"]), pa.array(headers, TYPES["headers"])], ["value", "headers"]
    )
    assert [one[4] for one in sent(batch.slice(1))] == [None, None, [("b", None)], None]
