"""What a handler of messages changes in a record is not what the inboxes know of it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.order import unordered
from ehkafka.lanes.received import Received
from tests.kit.inbox_bench import InboxBench, at_once


def _message(offset: int, key: bytes | None = b"a", headers: Any = None) -> Message:
    return Message(
        topic="t", partition=0, offset=offset, key=key, value=b"value", headers=headers, timestamp=(1, 5)
    )


def _spoil(message: Message) -> None:
    message.set_key({"not": "hashable"})  # type: ignore[arg-type]
    message.set_topic(["neither"])  # type: ignore[arg-type]
    message.set_value(12345)  # type: ignore[arg-type]
    message.set_headers([("x-opt-partition-key", b"other")])


def test_a_record_is_counted_out_with_the_bytes_it_was_counted_in_with() -> None:
    """A handler that makes its messages larger or smaller neither fills the backlog nor hides in it."""
    bench = InboxBench(order_by=unordered)
    epoch = bench.assign()
    batch: Any = [_message(offset) for offset in range(3)]
    bench.inboxes.receive(epoch, batch, bench.reader.keys(batch), 0.0)
    assert epoch.tally.backlog_bytes == 18
    for call in at_once(bench):
        message: Any = call.entry[MESSAGE]
        message.set_value(b"much longer than it was")
        bench.finish(call)
    tally = bench.inboxes.tally
    assert (tally.outcomes, epoch.tally.backlog_bytes, tally.backlog_bytes) == (3, 0, 0)


@pytest.mark.parametrize("headers", [None, [("a", b"1"), ("a", None)]])
def test_a_message_is_made_what_it_was(headers: Any) -> None:
    """Also where its own list of headers was changed, and where it had none."""
    message = _message(7, b"k", headers)
    received = Received(message)
    _spoil(message)
    assert received.has_changed()
    received.restore()
    assert not received.has_changed()
    assert (message.topic(), message.key(), message.value()) == ("t", b"k", b"value")
    assert message.headers() == headers
    if headers:
        (message.headers() or []).append(("late", b""))
        received.restore()
        assert message.headers() == headers


def test_an_order_function_of_messages_changes_nothing() -> None:
    """It runs before anything else sees the message."""

    def decode(message: Any) -> Any:
        message.set_value(int(message.value()))
        return message.value() % 2

    batch: Any = [Message(topic="t", partition=0, offset=n, value=b"%d" % n) for n in range(3)]
    bench = InboxBench(order_by=decode)
    assert bench.reader.keys(batch) == [0, 1, 0]
    assert [message.value() for message in batch] == [b"0", b"1", b"2"]
