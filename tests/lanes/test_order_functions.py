"""Order functions: which lane a record goes to, and what happens when that is unknown."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.headers.partition_key import PARTITION_KEY_HEADER
from ehkafka.lanes.order import (
    Apart,
    KeyFailure,
    KeyReader,
    PartitionWide,
    by_key,
    by_partition,
    by_topic_partition,
    describe_key,
    unordered,
)
from ehkafka.records import Record
from tests.kit.inbox_bench import InboxBench
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from ehkafka.lanes.order import NullKey


def _message(offset: int = 0, key: bytes | None = b"k", **options: Any) -> SimulatedMessage:
    return SimulatedMessage("t", 0, offset, key, **options)


@pytest.mark.parametrize("order_by", [by_key, by_partition, by_topic_partition, unordered])
def test_keys_read_together_are_those_read_one_by_one(order_by: Any) -> None:
    """What the reader does for speed changes no key, also of several partitions and topics."""
    offsets = range(6)
    messages = [SimulatedMessage(topic, at % 3, at, b"%d" % (at % 2)) for topic in "tu" for at in offsets]
    assert KeyReader(order_by).keys(messages) == [order_by(message) for message in messages]


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (b"ab", b"ab"),
        (b"\xa1\x02ab", b"ab"),
        (b"\xb1\x00\x00\x00\x02ab", b"ab"),
        (b"\xa3\x02ab", b"ab"),
        (b"\xb3\x00\x00\x00\x02ab", b"ab"),
        (b"\xa0\x02ab", b"ab"),
        (b"\xb0\x00\x00\x00\x02ab", b"ab"),
        (b"\xa0\x02\xff\xfe", b"\xff\xfe"),
        (b"\xa1\x00", b""),
        ("schlüssel".encode(), "schlüssel".encode()),
        (b"", b""),
        # Not exactly one string: as it came.
        (b"\xa1", b"\xa1"),
        (b"\xa1\x03ab", b"\xa1\x03ab"),
        (b"\xa1\x01ab", b"\xa1\x01ab"),
        (b"\xa1\x02\xff\xfe", b"\xa1\x02\xff\xfe"),
        (b"\xb1\x00\x00", b"\xb1\x00\x00"),
        (b"\xb1\xff\xff\xff\xffab", b"\xb1\xff\xff\xff\xffab"),
        # Letters, not the AMQP constants that have the same codes.
        (b"A", b"A"),
        (b"qABCD", b"qABCD"),
    ],
)
def test_a_partition_key_is_the_same_lane_in_whichever_encoding_it_comes(header: bytes, key: bytes) -> None:
    """An AMQP string and plain UTF-8 of one key are one lane; what cannot be decoded is its own key."""
    assert KeyReader().keys([_message(0, None, headers=[(PARTITION_KEY_HEADER, header)])]) == [key]


@pytest.mark.parametrize(
    ("key", "values", "lane"),
    [
        (b"k", [b"p"], b"k"),
        (None, [b"first", b"last"], b"last"),
        (None, [None], PartitionWide("t", 0)),
    ],
)
def test_the_key_wins_over_partition_keys_and_of_these_the_last_counts(
    key: bytes | None, values: list[Any], lane: Any
) -> None:
    """A header without a value is no key: such a record follows the policy for records without a key."""
    headers = [*((PARTITION_KEY_HEADER, value) for value in values), ("other", b"x")]
    assert KeyReader(null_key="partition").keys([_message(0, key, headers=headers)]) == [lane]


@pytest.mark.parametrize(
    "own",
    [Apart("t", 0, 3), PartitionWide("t", 0), KeyFailure(ValueError("x"))],
    ids=lambda key: type(key).__name__,
)
def test_a_users_tuple_never_joins_a_lane_that_was_made_here(own: Any) -> None:
    """An order function may return any tuple, also one with the content of a key of ours."""
    same_content = tuple(own)[:-1]
    assert own != same_content
    assert same_content != own
    assert len({own, same_content}) == 2
    again = type(own)(*own)
    assert own == again
    assert not operator.ne(own, again)
    assert len({own, again}) == 1


def test_a_users_order_function_sees_a_record_and_decides() -> None:
    """What the function returns is the lane; `wrap` makes what it is given."""
    seen = []

    def by_length(record: Record) -> int:
        seen.append(type(record))
        return len(record)

    reader = KeyReader(by_length, wrap=Record)
    assert reader.keys([_message(0, value=b"aa"), _message(1, value=b"b")]) == [2, 1]
    assert seen == [Record, Record]


@pytest.mark.parametrize("null_key", ["spread", "partition"])
def test_a_users_none_follows_the_null_key_policy(null_key: NullKey) -> None:
    """An order function may say that a record has no key."""
    users = KeyReader(lambda _: None, null_key=null_key)
    named = KeyReader(null_key=null_key)
    assert users.keys([_message(3)]) == named.keys([_message(3, None)])


def test_an_order_function_that_raises_fails_its_record_alone() -> None:
    """The error becomes the record's key; the others of the batch have theirs."""

    def order_by(message: SimulatedMessage) -> bytes | None:
        if message.offset() == 1:
            raise LookupError("no such field")
        return message.key()

    first, failed, last = KeyReader(order_by).keys([_message(offset) for offset in range(3)])
    assert first == last == b"k"
    assert isinstance(failed, KeyFailure)
    assert isinstance(failed.error, LookupError)


def test_a_key_that_cannot_be_hashed_fails_its_record_alone() -> None:
    """An unhashable key is the user's error, reported like one."""
    [failed] = KeyReader(lambda _: ["a", "list"]).keys([_message()])  # type: ignore[arg-type,return-value]
    assert isinstance(failed, KeyFailure)
    assert isinstance(failed.error, TypeError)


def test_an_error_without_a_hash_can_be_dispatched() -> None:
    """An exception class may be a dataclass, whose instances cannot be hashed."""

    @dataclasses.dataclass
    class FieldMissingError(Exception):
        field: str

    def order_by(_: object) -> str:
        raise FieldMissingError("tenant")

    bench = InboxBench(order_by=order_by)
    bench.receive(bench.assign(), "a0 b1")
    bench.work()
    assert bench.is_empty()


def test_an_interrupt_in_an_order_function_is_not_a_records_failure() -> None:
    """KeyboardInterrupt is no record's fault: it is kept as it is, and stops the app."""

    def interrupted(_: object) -> str:
        raise KeyboardInterrupt

    (key,) = KeyReader(interrupted).keys([_message()])
    assert isinstance(key, KeyFailure)
    assert type(key.error) is KeyboardInterrupt


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"sensor-1", "sensor-1"),
        (b"\xff\x00", "0xff00"),
        (b"a\nb", "'a\\nb'"),
        ("x" * 100, "x" * 77 + "…"),
        (Apart("t", 0, 3), "(no key)"),
        (KeyFailure(ValueError("secret")), "(order_by failed)"),
        (7, "7"),
    ],
)
def test_keys_are_described_in_one_short_printable_line(key: Any, text: str) -> None:
    """The log names a key; it must neither break the line nor be endless."""
    assert describe_key(key) == text
