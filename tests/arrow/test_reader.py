"""A range of a topic as Arrow batches, on an embedded broker."""

from __future__ import annotations

import gc
import logging
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

from ehkafka.arrow import Ends
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import (
    ConfigurationError,
    EndpointError,
    MissingExtraError,
    OffsetGapError,
    TopicNotFoundError,
)
from ehkafka.ranges import batches, reading
from tests.arrow.conftest import offsets
from tests.kit.broken_batches import broken_batch, write_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.arrow import Reader
    from ehkafka.testing import EmbeddedBroker

ALL = {0: list(range(30)), 1: list(range(20))}


def test_a_topic_is_read_whole(read: Callable[..., Reader]) -> None:
    """Each partition in its order; the ends are the beginning's first and the logs' last."""
    reader = read(start="earliest")
    assert (reader.starts, reader.stops) == ({0: 0, 1: 0}, {0: 30, 1: 20})
    assert reader.ends == {0: 0, 1: 0}
    assert offsets(reader) == ALL
    assert reader.ends == {0: 30, 1: 20}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"start": {0: 10, 1: 19}}, {0: list(range(10, 30)), 1: [19]}),
        ({"start": {0: 10, 1: "latest"}, "end": {0: 12, 1: 20}}, {0: [10, 11]}),
        ({"start": 5, "end": 7}, {0: [5, 6], 1: [5, 6]}),
        ({"start": "earliest", "partitions": [1]}, {1: list(range(20))}),
        ({"start": {1: 18}, "partitions": [1]}, {1: [18, 19]}),
        ({"start": "now"}, {}),
        ({"start": timedelta(hours=1)}, ALL),
        ({"start": "earliest", "end": datetime(2000, 1, 1, tzinfo=UTC)}, {}),
        ({"start": "earliest", "end": datetime(2900, 1, 1, tzinfo=UTC)}, ALL),
        ({"start": Ends("readings", {0: 28})}, {0: [28, 29], 1: list(range(20))}),
    ],
)
def test_any_range_is_read(
    read: Callable[..., Reader], given: dict[str, Any], found: dict[int, list[int]]
) -> None:
    """By offsets, words, times and ends, of all partitions or of some."""
    reader = read(**given)
    assert offsets(reader) == found
    assert reader.ends == reader.stops


def test_columns_are_those_that_are_asked_for(read: Callable[..., Reader]) -> None:
    """In that order, in any case; nothing else is in the batches."""
    whole = read(start="now")
    assert whole.schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    assert whole.table().schema == whole.schema
    assert read(start={0: 28, 1: 20}, columns=["VALUE", "offset"]).table().to_pydict() == {
        "value": [b"v28", b"v29"],
        "offset": [28, 29],
    }


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"start": "erliest"}, ConfigurationError, "start='erliest' is not understood"),
        ({"start": "earliest", "columns": ["values"]}, ConfigurationError, "no column 'values'"),
        ({"start": "earliest", "columns": []}, ConfigurationError, "columns="),
        ({"start": "earliest", "columns": "value"}, ConfigurationError, "columns='value' is not understood"),
        ({"start": "earliest", "partitions": []}, ConfigurationError, "partitions="),
        ({"start": "earliest", "partitions": ["0"]}, ConfigurationError, "partitions="),
        ({"start": 0, "partitions": [0, 7]}, ConfigurationError, r"readings\[7\] does not exist.*0 to 1"),
        ({"start": {0: 3}}, ConfigurationError, r"do not name readings\[1\].*by partitions"),
        ({"start": {0: 3, 1: 3, 2: 3}}, ConfigurationError, r"name readings\[2\], which is not read"),
        ({"start": 31}, ConfigurationError, r"31 given for readings\[0\] is beyond the end of its log, 30"),
        ({"start": 9, "end": 3}, ConfigurationError, "begin at offset 9 and end at 3, which is lower"),
        ({"start": "earliest", "on_loss": "ignore"}, ConfigurationError, "on_loss='ignore'"),
        ({"start": "earliest", "header_values": "text"}, ConfigurationError, "header_values='text'"),
        ({"start": "earliest", "timeout_s": 0}, ConfigurationError, "timeout_s=0"),
        ({"start": "earliest", "topic": "reading"}, TopicNotFoundError, r"Did you mean 'readings'\?"),
        ({"start": "earliest", "topic": ""}, ConfigurationError, "topic=''"),
        ({"begin": "earliest"}, ConfigurationError, "begin"),
        ({}, ConfigurationError, "start"),
    ],
)
def test_what_is_wrong_is_reported_by_the_call(
    read: Callable[..., Reader], given: dict[str, Any], error: type[Exception], text: str
) -> None:
    """One error that names the argument, before anything is read."""
    with pytest.raises(error, match=text):
        read(**given)


def test_pyarrow_is_asked_for_by_the_name_of_its_extra(
    read: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room itself is imported without."""
    import sys  # noqa: PLC0415 - this test alone

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "ehkafka.arrow.reader")
    with pytest.raises(MissingExtraError, match=r"needs pyarrow and NumPy: (pip )?install"):
        read(start="earliest")


def test_ends_are_those_of_the_batches_that_were_handed_out(
    read: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of those that wait to be: who stops in the middle goes on there, without a gap or a repeat."""
    monkeypatch.setattr(reading, "CONSUME_RECORDS", 7)
    monkeypatch.setattr(batches, "BATCH_RECORDS", 15)
    found: dict[int, list[int]] = {0: [], 1: []}
    ends: Any = "earliest"
    for _ in range(100):
        with read(start=ends) as reader:
            if (batch := next(iter(reader), None)) is None:
                break
            for partition, offset in zip(*batch.select(["partition", "offset"]).columns, strict=True):
                found[partition.as_py()].append(offset.as_py())
            ends = Ends.from_json(reader.ends.to_json())
            assert ends == {one: (numbers or [-1])[-1] + 1 for one, numbers in found.items()}
    assert found == ALL


def test_a_reader_that_is_closed_leaves_nothing_open(read: Callable[..., Reader]) -> None:
    """In the middle."""
    before = set(threading.enumerate())
    with read(start="earliest") as reader:
        next(iter(reader))
    assert {one for one in set(threading.enumerate()) - before if not one.daemon} == set()


@pytest.mark.parametrize("use", ["read whole", "read in part", "closed", "failed"])
def test_a_reader_that_has_ended_gives_no_second_empty_table(
    read: Callable[..., Reader], broker: EmbeddedBroker, use: str
) -> None:
    """Whatever asks again, by whichever way, learns how to read these records or the next ones."""
    if use == "failed":
        write_batch(broker, "readings", broken_batch("checksum", 1))
    reader = read(start="earliest")
    with suppress(EndpointError):
        if use == "read in part":
            next(iter(reader))
        if use == "closed":
            reader.close()
        else:
            assert reader.table().num_rows == (50 if use == "read whole" else 0)
    ways: list[Callable[[Any], object]] = [list, lambda one: one.table(), pa.table, pl.DataFrame]
    for again in (*ways, pa.RecordBatchReader.from_stream):
        with pytest.raises(
            ConfigurationError, match=r"of topic readings .*start=reader\.starts .*reader\.ends"
        ):
            again(reader)
    assert offsets(read(start=reader.starts, end={0: 30, 1: 20})) == ALL


def test_other_libraries_take_it_as_a_stream(read: Callable[..., Reader]) -> None:
    """By Arrow's C interface, a batch at a time."""
    stream = pa.RecordBatchReader.from_stream(read(start="earliest", columns=["value"]))
    assert stream.read_all().num_rows == 50


def test_records_that_retention_took_are_named(
    read: Callable[..., Reader], broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the reading and in its midst: an error with place and number, or a warning and the rest."""
    waiting, patient = read(start=0), read(start=0, on_loss="warn")
    broker.delete_records("readings", 0, 12)
    for reader in (lambda: read(start=3, end=25, partitions=[0]), lambda: waiting):
        with pytest.raises(OffsetGapError, match=r"readings\[0\].*to 11 are gone .*give on_loss='warn'"):
            offsets(reader())
    assert waiting.ends[0] == 0
    with caplog.at_level(logging.WARNING, "ehkafka.arrow"):
        assert offsets(patient) == {0: list(range(12, 30)), 1: ALL[1]}
        assert offsets(read(start=3, on_loss="warn")) == {0: list(range(12, 30)), 1: ALL[1][3:]}
    logged = [one.getMessage() for one in caplog.records if one.name == "ehkafka.arrow"]
    assert len(logged) == 2
    assert "0 to 11 are gone (retention). The reader continues at offset 12 (on_loss='warn')" in logged[0]
    assert patient.ends == {0: 30, 1: 20}


def test_a_batch_that_cannot_be_read_ends_the_reading_at_its_place(
    read: Callable[..., Reader], broker: EmbeddedBroker
) -> None:
    """Nothing behind it is handed out, and the ends lie before it."""
    write_batch(broker, "readings", broken_batch("checksum", 1))
    broker.produce("readings", [(b"k", b"v")] * 5, partition=0)
    reader = read(start="earliest", partitions=[0])
    with pytest.raises(EndpointError, match=r"batch at readings\[0\]@30 cannot be read.*reader\.ends"):
        offsets(reader)
    assert reader.ends[0] <= 30
    assert offsets(read(start=reader.ends, end=30, partitions=[0])).get(0, []) == ALL[0][reader.ends[0] :]


def test_a_broker_that_goes_away_ends_the_reading_after_its_time(
    read: Callable[..., Reader], broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is named; the ends are where another reader goes on once it is back."""
    monkeypatch.setattr(reading, "CONSUME_RECORDS", 4)
    monkeypatch.setattr(batches, "BATCH_RECORDS", 8)
    reader = read(start="earliest", timeout_s=0.5)
    broker.take_down()
    with pytest.raises(EndpointError, match=r"No record arrived .*readings\[0\] from .*start=reader\.ends"):
        offsets(reader)
    broker.bring_up()
    assert offsets(read(start=reader.ends)) == ALL


def test_what_was_read_before_an_error_is_handed_out_before_it(
    read: Callable[..., Reader], broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention may take it before it is read again. A table hands nothing out, so its ends stay."""
    monkeypatch.setattr(reading, "CONSUME_RECORDS", 4)
    write_batch(broker, "readings", broken_batch("checksum", 1))
    reader, whole = (read(start="earliest", partitions=[0]) for _ in range(2))
    batch = next(iter(reader))
    with pytest.raises(EndpointError, match="cannot be read"):
        next(iter(reader))
    assert batch.column("offset").to_pylist() == ALL[0][: reader.ends[0]]
    with pytest.raises(EndpointError, match="cannot be read"):
        whole.table()
    assert whole.ends == {0: 0}


def test_readers_that_end_in_any_order_leave_the_collector_as_it_was(
    read: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that began within another's time does not restore what that one has set."""
    monkeypatch.setattr(reading, "CONSUME_RECORDS", 4)
    monkeypatch.setattr(batches, "BATCH_RECORDS", 8)
    before = gc.get_threshold()
    readers = [read(start="earliest") for _ in range(2)]
    for reader in readers:
        next(iter(reader))
    assert gc.get_threshold()[0] == reading.NEW_OBJECTS_MAX
    for reader in readers:
        reader.close()
    assert gc.get_threshold() == before


def test_a_topic_that_may_not_be_read_is_reported(
    read: Callable[..., Reader], broker: EmbeddedBroker
) -> None:
    """At once, by the broker's word."""
    from confluent_kafka import KafkaError  # noqa: PLC0415 - this test alone

    reader = read(start="earliest")
    broker.fail_next(ApiKey.FETCH, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(EndpointError, match="TOPIC_AUTHORIZATION_FAILED"):
        offsets(reader)


def _made_anew(broker: EmbeddedBroker, *counts: int) -> None:
    broker.delete_topic("readings")
    broker.create_topic("readings", 2)
    for partition, count in enumerate(counts):
        if count:
            broker.produce("readings", [(b"new", b"new")] * count, partition=partition)


@pytest.mark.parametrize("counts", [(90, 80), (25, 80), (2, 0)], ids=["longer", "mixed", "shorter"])
def test_ends_of_a_topic_that_was_recreated_are_not_taken_for_the_new_ones(
    read: Callable[..., Reader],
    broker: EmbeddedBroker,
    counts: tuple[int, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its new log may be the longer one: a record tells, or the log that ends before the position."""
    reader = read(start="earliest")
    offsets(reader)
    _made_anew(broker, *counts)
    ends = Ends.from_json(reader.ends.to_json())
    with pytest.raises(OffsetGapError, match=r"recreated.*give on_loss='warn'"):
        read(start=ends)
    with caplog.at_level(logging.WARNING, "ehkafka.arrow"):
        found = offsets(read(start=ends, on_loss="warn"))
    assert found == {one: list(range(count)) for one, count in enumerate(counts) if count}
    assert "on_loss='warn'" in caplog.text


@pytest.mark.parametrize(
    ("ends", "text", "found"),
    [
        ({0: 40, 1: 20}, r"readings\[0\]: offset 40 .*the log holds offsets 0 to 30: the log", {0: ALL[0]}),
        ({0: 29, 1: 20, 7: 3}, r"start names readings\[7\], no longer read", {0: [29]}),
    ],
)
def test_ends_that_the_topic_does_not_have_are_named(
    read: Callable[..., Reader], ends: dict[int, int], text: str, found: dict[int, list[int]]
) -> None:
    """If permitted, a shorter log is read from its beginning, and a partition that is gone is left out."""
    with pytest.raises(OffsetGapError, match=f"{text}.*give on_loss='warn'"):
        read(start=Ends("readings", ends))
    reader = read(start=Ends("readings", ends), on_loss="warn")
    assert offsets(reader) == found
    assert reader.ends == {0: 30, 1: 20}


def test_a_partition_that_was_added_is_read_from_its_beginning(read: Callable[..., Reader]) -> None:
    """Ends do not name it; one that was chosen away before is none that is gone."""
    first = read(start="earliest", partitions=[0])
    offsets(first)
    assert offsets(read(start=first.ends)) == {1: ALL[1]}
    both = read(start="earliest")
    offsets(both)
    assert offsets(read(start=both.ends, partitions=[1])) == {}
    assert read(start=both.ends).ends == both.ends


def test_ends_keep_the_partitions_that_are_not_read_this_time(
    read: Callable[..., Reader], broker: EmbeddedBroker
) -> None:
    """With what their logs are recognised by; of a recreated topic they are the old log's, and go."""
    whole = read(start="earliest")
    offsets(whole)
    broker.produce("readings", [(b"k", b"v")], partition=0)
    some = read(start=whole.ends, partitions=[0])
    assert offsets(some) == {0: [30]}
    assert some.ends == {0: 31, 1: 20}
    assert some.ends.witnesses.keys() == whole.ends.witnesses.keys()
    assert some.stops == {0: 31}
    assert offsets(read(start=Ends.from_json(some.ends.to_json()))) == {}
    _made_anew(broker, 90, 80)
    anew = read(start=some.ends, partitions=[0], on_loss="warn")
    offsets(anew)
    assert anew.ends == {0: 90}


def test_headers_are_read_when_they_are_asked_for(
    read: Callable[..., Reader], broker: EmbeddedBroker
) -> None:
    """As bytes, or decoded: an AMQP producer's values are text then, whatever they were."""
    amqp = [("celsius", b"\x82\x40\x35\x80\x00\x00\x00\x00\x00"), ("door", b"\xa1\x04open"), ("n", b"\x40")]
    broker.produce("readings", [(b"k", b"v")], partition=0, headers=amqp)
    broker.produce("readings", [(b"k", b"v")], partition=0)
    given: dict[str, Any] = {"start": 30, "partitions": [0], "columns": ["headers"]}
    (raw, none) = read(**given).table().column("headers").to_pylist()
    assert raw == [{"key": name, "value": value} for name, value in amqp]
    assert none is None
    decoded = read(**given, header_values="amqp")
    table = decoded.table()
    assert table.schema == decoded.schema
    assert table.column("headers").to_pylist() == [
        [
            {"key": "celsius", "value": "21.5"},
            {"key": "door", "value": "open"},
            {"key": "n", "value": None},
        ],
        None,
    ]


def test_reading_joins_no_group_and_commits_nothing(
    read: Callable[..., Reader], broker: EmbeddedBroker
) -> None:
    """Whatever is read."""
    broker.track_requests()
    offsets(read(start="earliest"))
    asked = {request.api_key for request in broker.requests()}
    assert asked & {ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT} == set()
    assert ApiKey.FETCH in asked
