"""However many records wait: they are counted, and a look costs little."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import AwaitHead, HoldHead
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from tests.kit.inbox_bench import InboxBench
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.lanes.epoch import Epoch

DEFERRED = AwaitHead("deferred", lambda _: None)
IN_HAND = 50_000
CONSUMERS = 100
PARTITIONS = 16


def test_what_a_held_key_keeps_counts_in_the_limits_of_its_partition() -> None:
    """In records and in bytes, what arrives later too, by the partition of each record."""
    bench = InboxBench("handler")
    epochs = [bench.assign(partition) for partition in range(2)]
    bench.receive(epochs[0], "a0", value=b"x" * 10)
    bench.fail(bench.call("a"), HoldHead("poison"))
    bench.receive(epochs[0], " ".join(f"a{offset}" for offset in range(1, 1_000)), value=b"x" * 10)
    bench.receive(epochs[1], " ".join(f"a{offset}" for offset in range(200)), value=b"x" * 30)
    first, second = (epoch.tally for epoch in epochs)
    assert (first.parked_records, first.backlog_records) == (1_000, 0)
    assert (second.parked_records, second.backlog_records) == (200, 0)
    sizes = [sum(entry[2] for entry in epoch.unfinished()) for epoch in epochs]
    assert [first.parked_bytes, second.parked_bytes] == sizes
    assert min(sizes) >= 200 * 30
    assert bench.waiting.skip_key(b"a", epochs[0], 1_100) == 1_100
    bench.work()
    assert bench.is_empty()
    assert [(epoch.tally.parked_bytes, epoch.tally.backlog_bytes) for epoch in epochs] == [(0, 0), (0, 0)]


class Looked(deque[Any]):
    """A queue that counts how many of its records are looked at."""

    count = 0

    def __iter__(self) -> Iterator[Any]:
        for entry in super().__iter__():
            Looked.count += 1
            yield entry

    def __reversed__(self) -> Iterator[Any]:
        for entry in super().__reversed__():
            Looked.count += 1
            yield entry

    def __getitem__(self, place: Any) -> Any:
        Looked.count += 1
        return super().__getitem__(place)

    def pop(self) -> Any:  # type: ignore[override]
        """Count a record that is taken back."""
        Looked.count += 1
        return super().pop()

    def popleft(self) -> Any:
        """Count a record that has finished."""
        Looked.count += 1
        return super().popleft()


def _in_hand() -> tuple[Inboxes, list[Epoch]]:
    """Return inboxes with all those records, and a call with each consumer."""
    core = Inboxes(CONSUMERS, make_queue=Looked)
    epochs = [core.assign(TopicPartition("t", p), p) for p in range(PARTITIONS)]
    for inbox in core.inboxes:
        inbox.log = Looked()
    for epoch in epochs:
        epoch.order = Looked()
        records = range(IN_HAND // PARTITIONS)
        keys = [b"%d" % (offset % 700) for offset in records]
        messages: list[Any] = [
            WatchedMessage(*epoch.partition, offset, key) for offset, key in zip(records, keys, strict=True)
        ]
        core.receive(epoch, messages, keys, 0.0)
    _go_on(core, 1)
    return core, epochs


def _go_on(core: Inboxes, records: int) -> None:
    """Let each consumer end its call and so many more, and start the next."""
    for inbox in core.inboxes:
        for _ in range(records):
            if inbox.q:
                inbox.head = deque.__getitem__(inbox.q, 0)
                deque.popleft(inbox.q)


def _inspect(core: Inboxes, epochs: list[Epoch], now_s: float) -> int:
    """Do what is done often: a check, and what a commit asks; return how many records were looked at."""
    Looked.count = 0
    core.check(now_s)
    core.take_touched()
    for epoch in epochs:
        epoch.watermark()
        epoch.oldest()
        epoch.take_ended()
    return Looked.count


def test_a_look_over_many_records_looks_at_those_that_have_moved() -> None:
    """A few for each consumer and partition, and a few for each record that has finished."""
    core, epochs = _in_hand()
    assert core.tally.backlog_records == IN_HAND
    _inspect(core, epochs, 0.001)
    least = 4 * (CONSUMERS + PARTITIONS)
    assert _inspect(core, epochs, 0.002) <= least
    for moved in (1, 5):
        _go_on(core, moved)
        assert _inspect(core, epochs, 0.003 * moved) <= least + 6 * moved * CONSUMERS


class _Unseen(dict[Any, None]):
    """Keys of which a caller asks whether they wait, and never which ones wait."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all waiting keys were looked at")


def test_what_arrives_looks_at_no_other_waiting_key() -> None:
    """With one consumer, too: a thousand keys may wait in each of a hundred partitions."""
    bench = InboxBench(consumers=1)
    epoch = bench.assign(0)
    bench.receive(epoch, "a0")
    bench.fail(bench.call("a"), HoldHead("poison"))
    bench.router.held = _Unseen(bench.router.held)
    bench.receive(epoch, "a1 b2 a3")
    assert [len(inbox.q) for inbox in (*bench.waiting.held, *bench.router.inboxes)] == [3, 1]
