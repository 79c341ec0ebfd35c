"""What a handler of messages changes in a record is not what the inboxes know of it."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.order import unordered
from tests.kit.inbox_bench import InboxBench, at_once


def _message(offset: int, key: bytes | None = b"a", headers: Any = None) -> Message:
    return Message(
        topic="t", partition=0, offset=offset, key=key, value=b"value", headers=headers, timestamp=(1, 5)
    )


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
