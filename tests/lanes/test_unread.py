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
    assert inboxes.ending.end([epoch]) == [3]
    assert inboxes.tally.stale_records == 2
    assert (epoch.tally.finished_records, list(inboxes.router.ignored)) == (0, [epoch, epoch])


def fail(inboxes: Inboxes) -> None:
    """Let the running record fail, to be called again after a second."""
    (inbox,) = inboxes.inboxes
    inbox.frozen = True
    inboxes.waiting.fail(inbox, ((inboxes.running()[0], RetryHead(1.0, "again"), ()),), 0.0)
    inbox.frozen = False
    inboxes.take_touched()


def work(inboxes: Inboxes, records: int = 100) -> list[int]:
    """Let the consumer run so many records, with inspections, and show the last one still."""
    (inbox,), started = inboxes.inboxes, []
    while inbox.q and len(started) < records:
        if inboxes.router.unread.ahead is inbox.q[0]:
            inbox.head = None
            inboxes.router.unread.inspect(inbox)
            inboxes.take_touched()
        else:
            run(inbox, 1)
            started.append(inboxes.running()[0][MESSAGE].offset())
    return started


def test_after_a_failure_only_its_key_waits_and_others_keep_their_place() -> None:
    """An inspection moves the later records of its key behind it, those received afterwards too."""
    inboxes, epoch = unread_inboxes("abcab")
    run(inboxes.inboxes[0], 1)
    fail(inboxes)
    inboxes.receive(epoch, messages("da", 5), None, 0.0)
    assert work(inboxes) == [1, 2, 4, 5]
    (held,) = inboxes.waiting.held
    assert [entry[MESSAGE].offset() for entry in held.q] == [0, 3, 6]
    assert epoch.tally.parked_records == 3
    assert [entry[MESSAGE].offset() for entry in epoch.unfinished()] == [0, 3, 6]


def test_records_whose_keys_an_inspection_has_read_wait_too_once_their_key_fails() -> None:
    """The inspection at offset 1 has read all of them."""
    inboxes, _ = unread_inboxes("aabcb")
    run(inboxes.inboxes[0], 1)
    fail(inboxes)
    assert work(inboxes, 1) == [2]
    fail(inboxes)
    assert work(inboxes) == [3]
    assert [[one[MESSAGE].offset() for one in held.q] for held in inboxes.waiting.held] == [[0, 1], [2, 4]]


def test_records_of_a_partition_that_is_not_open_wait_though_others_are_unread() -> None:
    """Its user code is not ready for them."""
    inboxes, _ = unread_inboxes("ab")
    epoch = inboxes.assign(TopicPartition("t", 1), 2, opened=False)
    inboxes.receive(epoch, messages("c"), None, 0.0)
    assert len(inboxes.inboxes[0].q) == 2


def test_a_paused_key_waits_with_all_its_unread_records() -> None:
    """What runs of it ends."""
    inboxes, epoch = unread_inboxes("abab")
    run(inboxes.inboxes[0], 1)
    assert inboxes.waiting.pause_key(READER.keys(messages("a"))[0], epoch)
    (held,) = inboxes.waiting.held
    assert [one[MESSAGE].offset() for one in held.q] == [2]
    assert [one[MESSAGE].offset() for one in inboxes.inboxes[0].q] == [1, 3]


def test_a_record_that_goes_again_is_running_though_its_consumer_was_seen_to_have_ended() -> None:
    """It goes in front of the others, with a number that one before it had."""
    inboxes, epoch = unread_inboxes("ab")
    (inbox,) = inboxes.inboxes
    run(inbox, 1)
    fail(inboxes)
    assert work(inboxes) == [1]
    inbox.head = None
    assert not inbox.is_live(inbox.sent)
    inboxes.receive(epoch, messages("cd", 2), None, 0.0)
    inboxes.waiting.retry_due(1.0)
    assert work(inboxes, 1) == [0]
    assert epoch.tally.finished_records == 1


def test_a_drain_finishes_a_record_that_goes_again_below_what_finished_unread() -> None:
    """So the commit has no hole below offset 2."""
    inboxes, epoch = unread_inboxes("abcab")
    run(inboxes.inboxes[0], 1)
    fail(inboxes)
    assert work(inboxes, 2) == [1, 2]
    inboxes.inboxes[0].head = None
    inboxes.waiting.retry_due(1.0)
    assert inboxes.ending.drain([epoch], lambda _work: True)
    assert (epoch.drain_limit, epoch.tally.returned_records) == (2, 2)
    assert work(inboxes) == [0]


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
