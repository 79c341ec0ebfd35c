"""Consumers of inboxes that run in steps, and the records that they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes import put_back
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.unread import UNREAD
from ehkafka.workers.batches.taking import BatchLimits, Taking
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from tests.lanes.inbox_world import World

SERIAL = iter(range(1 << 60))


class Message(SimulatedMessage):
    """A record, received once; what orders it is given apart from its key."""

    epoch: Epoch

    def __init__(self, partition: int, offset: int, key: int | None) -> None:
        super().__init__("t", partition, offset, b"k", leader_epoch=0)
        self.lane_key: Hashable = ("apart", partition, offset) if key is None else key
        self.serial = next(SERIAL)

    def __len__(self) -> int:
        return 1 + self._offset % 3


def entry_of(one: Any) -> Entry:
    """Return what is in a queue as an entry: perhaps it is a message alone."""
    return one if isinstance(one, tuple) else (one, UNREAD, len(one), one.epoch)  # type: ignore[return-value]


class Consumer:
    """One worker, in steps: it shows a record, removes it, runs it, ends it."""

    def __init__(self, world: World, inbox: Inbox) -> None:
        self.world, self.inbox, self.q = world, inbox, inbox.q
        self.shown: Entry | None = None
        self.entry: Entry | None = None
        self.lists = self.leaves = False
        self.asleep_until = 0

    def has_any(self) -> list[Entry]:
        """Return what it runs."""
        return [] if self.entry is None else [self.entry]

    def step(self, *, may_fail: bool) -> None:
        """Do one step."""
        world, inbox, r = self.world, self.inbox, self.world.r
        if inbox.frozen or world.steps < self.asleep_until:
            return
        if r.random() < world.preempted:
            self.asleep_until = world.steps + r.choice((5, 40, 300))
            return
        if self.leaves:
            world.rests(self, has_lock=may_fail)
        elif self.lists:
            self.lists = False
            world.core.router.idle.append(inbox)
        elif self.entry is not None:
            entry, self.entry = self.entry, None
            if may_fail and r.random() < world.failing:
                its = world.core.router.unread.entry_of(inbox, entry[MESSAGE])
                assert its is not None, "what runs is not known"
                inbox.frozen = True
                world.failed.append((inbox, [(its, ())]))
            else:
                world.ends(entry)
        elif self.shown is not None:
            self._remove()
        elif not self._show():
            world.rests(self, has_lock=may_fail)

    def _show(self) -> bool:
        inbox, unread = self.inbox, self.world.core.router.unread
        try:
            inbox.head = self.shown = self.q[0]
        except IndexError:
            return self._find_another_queue()
        if unread.ahead is inbox.head:
            self.shown = inbox.head = None
            inbox.frozen = True
            self.world.inspections.append(inbox)
        return True

    def note_idle(self) -> None:
        """Do the first half of what `Hub.note_idle` does; the other half is its next step."""
        if not self.inbox.listed:
            self.inbox.listed = self.lists = True

    def _remove(self) -> None:
        self.shown = None
        try:
            entry = self.q.popleft()
        except IndexError:
            self._find_another_queue()
            return
        # A queue that lost its head between the two steps cannot give another record: it only shrinks.
        assert entry is self.inbox.head
        self.entry = entry_of(entry)
        self.world.starts(self.entry)

    def _find_another_queue(self) -> bool:
        if self.inbox.q is not self.q:
            self.q = self.inbox.q
            return True
        self.inbox.head = None
        return False


class BatchConsumer:
    """A worker that takes several records at once, under the lock, and fails some of them."""

    def __init__(self, world: World, inbox: Inbox) -> None:
        self.world, self.inbox = world, inbox
        self.batch: list[Entry] = []
        self.taking = Taking(world.core, BatchLimits(6, None, 0.0))
        self.leaves = False

    def has_any(self) -> list[Entry]:
        """Return what it runs."""
        return self.batch

    def note_idle(self) -> None:
        """Batches go where records wait."""

    def step(self, *, may_fail: bool) -> None:
        """Do one step."""
        world, inbox = self.world, self.inbox
        if inbox.frozen:
            return
        if self.leaves:
            world.rests(self, has_lock=may_fail)
        elif self.batch:
            if world.r.random() < 0.5:
                self._end(may_fail=may_fail)
        elif may_fail:  # outside of the core only: it takes the lock
            self.batch = world.core.take(inbox, world.r.randint(1, 6))
            for entry in self.batch:
                world.starts(entry, self.batch)
            if not self.batch:
                world.rests(self, has_lock=True)

    def _end(self, *, may_fail: bool) -> None:
        """End the batch: well, with some records that failed or are skipped, or by putting all of it back."""
        world, inbox, r = self.world, self.inbox, self.world.r
        batch, self.batch = self.batch, []
        if may_fail and r.random() < world.failing:
            for entry in reversed(batch):
                world.stops(entry)
                if not entry[EPOCH].ended:
                    world.last[world.name(entry)] = entry[MESSAGE].serial  # type: ignore[attr-defined]
            self.taking.narrow(inbox.head, len(batch))  # type: ignore[arg-type]
            put_back.put_back(world.core, inbox)
            return
        failures: list[tuple[Entry, list[Entry]]] = []
        behind: dict[Any, list[Entry]] = {}
        skipped = []
        for entry in batch:
            name = world.name(entry)
            if (later := behind.get(name)) is not None:
                later.append(entry)
            elif may_fail and r.random() < world.failing:
                behind[name] = later = []
                failures.append((entry, later))
            else:
                world.ends(entry)
                if may_fail and r.random() < world.failing:
                    skipped.append(entry)
        if failures:
            inbox.frozen = True
            world.failed.append((inbox, failures))
        elif skipped:
            world.core.end_batch(inbox, skipped)
        else:
            inbox.head = None
