"""What is remembered of received batches is bounded, however long one record has no outcome."""

from __future__ import annotations

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.consumer.marks import Marks as Delivered
from ehkafka.lanes import received_batches as room
from ehkafka.records import TopicPartition
from tests.kit.inbox_bench import InboxBench

BATCHES_MAX = 1_000


def _held_bench() -> InboxBench:
    """Return a bench whose partition 0 has a record without an outcome, at offset 0."""
    bench = InboxBench()
    bench.receive(bench.assign(), "a0", leader_epoch=1)
    assert bench.call("a").text == "a0"
    return bench


def test_batches_behind_one_record_are_not_remembered_one_by_one() -> None:
    """5 000 batches behind a record that runs leave 1 000 entries at most, and each offset is in one."""
    bench = _held_bench()
    (epoch,) = bench.inboxes.router.epochs.values()
    for offset in range(1, 5_001):
        bench.now_s = offset / 100
        bench.receive(epoch, f"b{offset}", leader_epoch=1)
        bench.work()
    assert len(epoch.received.batches) <= BATCHES_MAX
    for offset in range(5_001):
        mark = epoch.received.batches.at(offset)
        assert mark is not None
        age_s, known_s = bench.now_s - offset / 100, bench.now_s - mark.received_at_s
        assert age_s - 1e-9 <= known_s <= age_s * (1 + 1 / 32) + 1e-9, "a record looks older than it is"
    assert epoch.received.batches.at(5_001) is None


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=60),
    st.integers(4, 20),
)
def test_any_history_keeps_epochs_and_order(steps: list[tuple[float, int, int]], most: int) -> None:
    """Whatever comes when and in which epoch: bounded, ascending, each offset in a batch of its epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "BATCHES_MAX", most)
        kept, now_s, offset = room.ReceivedBatches(), 0.0, 0
        came: dict[int, tuple[float, int | None]] = {}
        for wait_s, records, epoch in steps:
            now_s += wait_s
            came |= {offset + number: (now_s, epoch or None) for number in range(records)}
            offset += records
            kept.add(room.ReceivedBatch(offset - 1, now_s, epoch or None, offset - 1))
        assert len(kept) <= most
        ends = [batch.last_offset for batch in kept]
        assert ends == sorted(set(ends))
        for number, (at_s, its) in came.items():
            batch = kept.at(number)
            assert batch is not None
            assert batch.received_at_s <= at_s
            assert batch.leader_epoch in {its, None}
            assert batch.timestamp_ms == batch.last_offset


class _Idle:
    """A consumer that is never paused."""


def test_the_drop_in_remembers_no_entry_for_each_record() -> None:
    """One delivered record that is never marked, and 3 000 behind it that are."""
    delivered = Delivered(
        _Idle(),  # type: ignore[arg-type]
        records_max=50_000,
        bytes_max=1 << 27,
        emit=lambda _event: None,
    )
    for offset in range(3_001):
        delivered.delivered([Message(topic="t", partition=0, offset=offset, value=b"v", leader_epoch=3)])
        if offset:
            delivered.mark(TopicPartition("t", 0), offset)
    epoch = delivered._partitions[TopicPartition("t", 0)].epoch
    assert len(epoch.received.batches) <= BATCHES_MAX
    assert delivered.unmarked_records == 1
    position = delivered.position(TopicPartition("t", 0))
    assert position is not None
    assert position.next_offset == 0
