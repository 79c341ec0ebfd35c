"""Short scenarios that tell whether a guard of the inboxes is missing, where histories seldom get there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.lanes import put_back, resizing
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from tests.kit.mutant import Mutant
from tests.lanes.inbox_consumers import Message
from tests.lanes.inbox_world import run_seed

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Inbox


SEEDS_MAX = 1_500


def a_history_is_red(**chosen: Any) -> bool:
    """Run histories until one notices something."""
    for seed in range(SEEDS_MAX):
        try:
            run_seed(seed, **chosen)
        except Exception:
            return True
    return False


def mutant(name: str, function: Any, guard: str, without: str, **chosen: Any) -> Mutant:
    """Describe a guard; `chosen` are properties of histories in which its absence shows soon."""
    return Mutant(name, function, guard, without, partial(a_history_is_red, **chosen))


def a_batch_loses_records_of_another_partition() -> bool:
    """Let a batch of two partitions fail at its first record, whose epoch has ended meanwhile."""
    core = Inboxes(1, "handler")
    epochs = [core.ending.begin(TopicPartition("t", p), p) for p in (0, 1)]
    for p, epoch in enumerate(epochs):
        records: Any = [Message(p, 0, 0)]
        core.receive(epoch, records, ["key"], 0.0)
    [inbox] = core.inboxes
    first, second = core.take(inbox, 2)
    core.ending.end(epochs[:1])
    core.waiting.fail(inbox, ((first, RetryHead(0.0, "failed"), [second]),), 0.0)
    inbox.head = None
    return [entry[MESSAGE] for entry in inbox.q] != [second[MESSAGE]]


def a_batch_counts_what_it_skipped_otherwise() -> bool:
    """A batch of two partitions skips a record of each, and one of them has ended meanwhile."""
    core = Inboxes(1)
    epochs = [core.assign(TopicPartition("t", p), p) for p in (0, 1)]
    for p, epoch in enumerate(epochs):
        records: Any = [Message(p, 0, 0), Message(p, 1, 1)]
        core.receive(epoch, records, ["key", "another"], 0.0)
    [inbox] = core.inboxes
    batch = core.take(inbox, 4)
    core.end(epochs[:1])
    core.end_batch(inbox, [entry for entry in batch if entry[MESSAGE].offset() == 0])
    tallies = core.tally, *(epoch.tally for epoch in epochs)
    return [(tally.finished_records, tally.skipped_records) for tally in tallies] != [(1, 1), (0, 0), (1, 1)]


def _two_inboxes() -> tuple[Inboxes, Epoch]:
    core = Inboxes(2)
    return core, core.assign(TopicPartition("t", 0), 1)


def _route(core: Inboxes, epoch: Epoch, inbox: Inbox, offset: int, key: str) -> None:
    """Receive a record while one inbox alone takes new keys."""
    core.router.open = [inbox]
    records: Any = [Message(0, offset, 0)]
    core.receive(epoch, records, [key], 0.0)


def _start(inbox: Inbox) -> None:
    inbox.head = inbox.q[0]
    inbox.q.popleft()


def a_key_overlaps_where_the_next_record_is_shown() -> bool:
    """A key's record has ended and its next one runs elsewhere; where the first was, another is shown."""
    core, epoch = _two_inboxes()
    one, other = core.inboxes
    _route(core, epoch, other, 0, "key")
    _start(other)
    other.head = None
    _route(core, epoch, one, 1, "key")
    _start(one)
    _route(core, epoch, other, 2, "another")
    other.head = other.q[0]  # and is preempted before it removes it
    core.end([epoch])
    epoch = core.assign(TopicPartition("t", 0), 2)
    _route(core, epoch, other, 1, "key")
    return bool(other.q)


def what_waits_stays_where_a_consumer_is_to_go() -> bool:
    """A long call runs where the consumer is to go, and records of other keys wait behind it."""
    core, epoch = _two_inboxes()
    _, gone = core.inboxes
    for offset, key in enumerate(("key", "another", "key")):
        _route(core, epoch, gone, offset, key)
    _start(gone)
    resizing.shrink(core.router, 1)
    return [entry[MESSAGE].offset() for entry in gone.q] != [2]


def a_record_goes_where_the_consumer_has_left() -> bool:
    """A consumer lists itself as idle while its inbox is taken away, and leaves."""
    core, epoch = _two_inboxes()
    resizing.grow(core.router, 1)  # two are left: one alone would get all
    [gone] = resizing.shrink(core.router, 1)
    core.router.idle.append(gone)
    assert resizing.leave(core.router, gone)
    records: Any = [Message(0, 0, 0)]
    core.receive(epoch, records, ["key"], 0.0)
    return bool(gone.q)


def a_key_overlaps_where_its_batch_was_put_back() -> bool:
    """One of two records goes to its paused key as they are put back; the other one's key comes again."""
    core, epoch = _two_inboxes()
    inbox, other = core.inboxes
    _route(core, epoch, inbox, 0, "key")
    _route(core, epoch, inbox, 1, "paused")
    core.take(inbox, 2)
    core.waiting.pause_key("paused", epoch)
    put_back.put_back(core, inbox)
    _route(core, epoch, other, 2, "key")
    return bool(other.q)
