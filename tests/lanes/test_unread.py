"""While keys are unread all records of a handler are in one inbox, whatever else is received or shown."""

from __future__ import annotations

from ehkafka.lanes.inbox import KEY, MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.lanes.unread import UNREAD
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import WatchedMessage

READER = KeyReader()


def messages(keys: str, first: int = 0) -> list[WatchedMessage]:
    """Return records of one partition, one of each key."""
    return [WatchedMessage("t", 0, offset, key.encode()) for offset, key in enumerate(keys, first)]


def test_records_whose_keys_were_read_go_behind_those_whose_keys_were_not() -> None:
    """Some of a batch were too old, so the keys of the others are known: one may follow an unread record."""
    inboxes = Inboxes(2, read_keys=READER.keys, cores=1)
    router = inboxes.router
    router.deep = 3  # batches
    epoch = inboxes.assign(TopicPartition("t", 0), 1)
    first, second = inboxes.inboxes
    # As it was while both were given records, and the second one is being filled.
    router.open, router.width = [second], 2
    inboxes.receive(epoch, messages("x"), READER.keys(messages("x")), 0.0)
    assert len(second.q) == 1
    inboxes.take(second, 1)
    inboxes.end_batch(second)
    inboxes.check(0.0)
    inboxes.check(0.1)
    assert router.width == 1
    inboxes.receive(epoch, messages("ab", 1), None, 0.1)
    assert [entry[KEY] for entry in first.q] == [UNREAD, UNREAD]
    old_and_young = messages("ya", 3)
    inboxes.receive(epoch, old_and_young, READER.keys(old_and_young[1:]), 0.1, {3})
    assert [entry[MESSAGE].offset() for entry in first.q] == [1, 2, 4]


def test_once_all_consumers_take_keys_each_gets_its_part_at_once() -> None:
    """Not one consumer half of it at each check: until then other keys would wait behind slow ones."""
    inboxes = Inboxes(4, read_keys=READER.keys, cores=1)
    epoch = inboxes.assign(TopicPartition("t", 0), 1)
    inboxes.receive(epoch, messages("abcdefghijklmnopqrstuvwxyz"), None, 0.0)
    first = inboxes.inboxes[0]
    assert len(first.q) == 26
    for waits in range(2):
        first.head = first.q[0]
        first.q.popleft()
        inboxes.check(waits / 1_000, waits)
    assert inboxes.router.width == 4
    assert all(len(inbox.q) >= 4 for inbox in inboxes.inboxes)
