"""Records and batches that unit tests of handlers make."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.testing import make_batch, make_record


def test_a_made_record_reads_like_a_received_one() -> None:
    """All its fields are bytes, as from a broker, and JSON was written of the value."""
    record = make_record(
        {"door": "open"},
        key="home-1",
        headers={"n": "1", "none": None},
        topic="readings",
        partition=3,
        offset=7,
        timestamp=datetime(2026, 1, 2, tzinfo=UTC),
        attempt=2,
    )
    assert isinstance(record, ehkafka.Record)
    assert (record.key(), record.value(), record.json()) == (b"home-1", b'{"door":"open"}', {"door": "open"})
    assert record.headers() == [("n", b"1"), ("none", None)]
    assert (record.where, record.attempt) == ("readings[3]@7", 2)
    assert record.time == datetime(2026, 1, 2, tzinfo=UTC)
    assert record.error() is None
    assert record.message.value() == b'{"door":"open"}'
    assert len(record) == 15


def test_a_record_of_event_hubs_has_decoded_properties() -> None:
    """An AMQP value is decoded as the app's handlers do."""
    amqp_int = b"\x71\x00\x00\x00\x2a"
    assert make_record(headers={"n": amqp_int}, event_hubs=True).properties == {"n": 42}
    assert make_record(headers={"n": amqp_int}, header_mode="raw").properties == {"n": amqp_int}


def test_a_made_batch_takes_results() -> None:
    """As one that an app makes."""
    records = [make_record("a", offset=0), make_record("b", offset=1)]
    batch = make_batch(records)
    batch.fail(records[1], ValueError("no"))
    assert [record.value() for record in batch] == [b"a", b"b"]
    with pytest.raises(ConfigurationError, match="offset="):
        make_batch([make_record("a"), make_record("b")])
    with pytest.raises(ConfigurationError, match="a str is no record"):
        make_batch(["a"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "given",
    [
        {"value": {1, 2}},
        {"key": 5},
        {"headers": {"n": 5}},
        {"partition": -1},
        {"offset": "1"},
        {"attempt": 0},
        {"topic": ""},
        {"value": "\ud800"},
        {"headers": 5},
        {"timestamp": 2**70},
    ],
)
def test_what_is_no_record_is_refused(given: dict[str, Any]) -> None:
    """In words that name it."""
    with pytest.raises(ConfigurationError, match=next(iter(given)).removesuffix("s")):
        make_record(**given)


def test_a_made_batch_has_payloads_where_the_handler_names_their_type() -> None:
    """One for each record."""
    records = [make_record("1", offset=0), make_record("2", offset=1)]
    assert make_batch(records, values=[1, 2]).values == (1, 2)
    with pytest.raises(ConfigurationError, match="1 values for 2 records"):
        make_batch(records, values=[1])
    with pytest.raises(ConfigurationError, match="one record is no batch"):
        make_batch(records[0])  # type: ignore[arg-type]


def test_a_made_record_says_who_would_send_for_it() -> None:
    """Its handler may have to= all the same."""
    with pytest.raises(RuntimeError, match=r"of make_record, .* by ehkafka.testing.run"):
        make_record("x").send("y")
