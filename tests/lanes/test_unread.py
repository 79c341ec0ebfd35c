"""While keys are unread all records of a handler are in one inbox, whatever else is received or shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import WatchedMessage

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Inbox

READER = KeyReader()


def messages(keys: str, first: int = 0) -> list[WatchedMessage]:
    """Return records of one partition, one of each key."""
    return [WatchedMessage("t", 0, offset, key.encode()) for offset, key in enumerate(keys, first)]


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


def unread_inboxes(keys: str) -> tuple[Inboxes, Epoch]:
    """Return inboxes of one consumer with unread records of one partition."""
    inboxes = Inboxes(1, read_keys=READER.keys)
    epoch = inboxes.assign(TopicPartition("t", 0), 1)
    inboxes.receive(epoch, messages(keys), None, 0.0)
    assert epoch.runs
    return inboxes, epoch


def run(inbox: Inbox, records: int) -> None:
    """Let the consumer run so many records, and show the last one still."""
    for _ in range(records):
        inbox.head = inbox.q[0]
        inbox.q.popleft()


def test_what_ends_after_its_epoch_counts_for_nothing() -> None:
    """The last commit does not pass it, so the next owner handles it again."""
    inboxes, epoch = unread_inboxes("abc")
    run(inboxes.inboxes[0], 3)
    assert inboxes.end([epoch]) == [3]
    assert inboxes.tally.stale_records == 2
    assert (epoch.tally.finished_records, list(inboxes.router.ignored)) == (0, [epoch, epoch])


def test_after_a_failure_only_its_key_waits_and_others_keep_their_place() -> None:
    """The later records of its key go behind it as they are looked at, those received afterwards, too."""
    inboxes, epoch = unread_inboxes("abcab")
    (inbox,) = inboxes.inboxes
    run(inbox, 1)
    inbox.frozen = True
    inboxes.waiting.fail(inbox, ((inboxes.running()[0], RetryHead(1.0, "again"), ()),), 0.0)
    inbox.frozen = False
    inboxes.take_touched()
    inboxes.receive(epoch, messages("da", 5), None, 0.0)
    inboxes.take_touched()
    (held,) = inboxes.waiting.held
    started = []
    while inbox.q:
        if inboxes.router.unread.ahead is inbox.q[0]:
            inbox.head = None
            inboxes.router.unread.look(inbox)
        else:
            run(inbox, 1)
            started.append(inbox.head[MESSAGE].offset())  # type: ignore[index,union-attr]
    inboxes.take_touched()
    assert [entry[MESSAGE].offset() for entry in held.q] == [0, 3, 6]
    assert started == [1, 2, 4, 5]
    assert epoch.tally.parked_records == 3
    assert [entry[MESSAGE].offset() for entry in epoch.unfinished()] == [0, 3, 6]


def test_behind_a_call_that_takes_long_keys_are_read_and_others_go_on() -> None:
    """All is in one inbox only while calls are quick."""
    inboxes = Inboxes(2, read_keys=READER.keys, cores=1)
    first, second = inboxes.inboxes
    epoch = inboxes.assign(TopicPartition("t", 0), 1)
    inboxes.receive(epoch, messages("aba"), None, 0.0)
    run(first, 1)
    for now_s in (0.0, 0.1, 0.2):
        inboxes.check(now_s)
    assert not epoch.runs
    assert [entry[MESSAGE].offset() for entry in second.q] == [1]
    assert [entry[MESSAGE].offset() for entry in first.q] == [2]
