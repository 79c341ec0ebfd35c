"""What a handler of messages changes in a record is not what the lanes know of it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.order import by_key, by_topic_partition, unordered
from ehkafka.lanes.received import Received
from tests.kit.lane_bench import LaneBench


def _message(offset: int, key: bytes | None = b"a", headers: Any = None) -> Message:
    return Message(
        topic="t", partition=0, offset=offset, key=key, value=b"value", headers=headers, timestamp=(1, 5)
    )


def _spoil(message: Message) -> None:
    message.set_key({"not": "hashable"})  # type: ignore[arg-type]
    message.set_topic(["neither"])  # type: ignore[arg-type]
    message.set_value(12345)  # type: ignore[arg-type]
    message.set_headers([("x-opt-partition-key", b"other")])


@pytest.mark.parametrize("order_by", [by_key, by_topic_partition, unordered])
@pytest.mark.parametrize("key", [b"a", None])
def test_a_running_records_key_and_size_are_those_that_it_came_with(order_by: Any, key: bytes | None) -> None:
    """A chunk is ended early while its handler has changed the message that it is given."""
    bench = LaneBench(order_by=order_by, express=True)
    dispatcher, assignment = bench.dispatcher, bench.assign()
    assert dispatcher.express is not None
    dispatcher.express.on = True
    headers = [("x-opt-partition-key", b"mine")] if key is None else None
    batch: Any = [_message(offset, key, headers and [*headers]) for offset in range(3)]
    expected = bench.reader.keys(batch)[1]
    sizes = 5 + (1 if key else len("x-opt-partition-key") + 4)
    dispatcher.receive(assignment, batch, None, 0.0)
    assert assignment.backlog_bytes == 3 * sizes
    chunk: Any = dispatcher.begin()
    assert isinstance(chunk, Chunk)
    chunk.remember()
    assert chunk.iterator is not None
    for message in (next(chunk.iterator), next(chunk.iterator)):
        _spoil(message)  # type: ignore[arg-type]
    assert dispatcher.express.key_of_first(chunk) == expected
    dispatcher.express.on = False
    lane = dispatcher.end_early(chunk)
    assert lane is not None
    assert lane.key == expected
    assert (lane.head_bytes, assignment.backlog_bytes) == (sizes, 2 * sizes)
    lane.received.restore()
    head: Any = lane.head
    assert (head.topic(), head.key(), head.value(), head.headers()) == ("t", key, b"value", headers)
    lane.advance()
    bench.settle(lane)
    bench.work()
    assert bench.is_empty()


@pytest.mark.parametrize("express", [False, True])
def test_a_record_is_counted_out_with_the_bytes_it_was_counted_in_with(express: bool) -> None:
    """A handler that makes its messages larger or smaller neither fills the backlog nor hides in it."""
    bench = LaneBench(order_by=unordered, express=express)
    dispatcher, assignment = bench.dispatcher, bench.assign()
    if dispatcher.express is not None:
        dispatcher.express.on = True
    batch: Any = [_message(offset) for offset in range(3)]
    dispatcher.receive(assignment, batch, bench.reader.keys(batch), 0.0)
    assert assignment.backlog_bytes == 18
    while (one := dispatcher.begin()) is not None:
        for message in one.iterator if isinstance(one, Chunk) else [one.head]:  # type: ignore[union-attr]
            message.set_value(b"much longer than it was")  # type: ignore[union-attr]
        if not isinstance(one, Chunk):
            one.advance()
        bench.settle(one)
    assert (dispatcher.outcomes, assignment.backlog_bytes, dispatcher.backlog_bytes) == (3, 0, 0)


@pytest.mark.parametrize("headers", [None, [("a", b"1"), ("a", None)]])
def test_a_message_is_made_what_it_was(headers: Any) -> None:
    """Also where its own list of headers was changed, and where it had none."""
    message = _message(7, b"k", headers)
    received = Received.of(message)
    assert not received.has_changed()
    _spoil(message)
    assert received.has_changed()
    received.restore()
    assert not received.has_changed()
    assert (message.key(), message.value(), message.headers()) == (b"k", b"value", headers)
    assert (received.topic(), received.partition(), received.offset(), len(received)) == ("t", 0, 7, 5)
    if headers:
        (message.headers() or []).append(("late", b""))
        assert received.has_changed()
        received.restore()
        assert message.headers() == headers


def test_an_order_function_of_messages_changes_nothing() -> None:
    """It runs before anything else sees the message."""

    def decode(message: Any) -> Any:
        message.set_value(int(message.value()))
        return message.value() % 2

    batch: Any = [Message(topic="t", partition=0, offset=n, value=b"%d" % n) for n in range(3)]
    bench = LaneBench(order_by=decode)
    assert bench.reader.keys(batch) == [0, 1, 0]
    assert [message.value() for message in batch] == [b"0", b"1", b"2"]
