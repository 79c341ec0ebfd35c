"""A random world of `tests.lanes.inbox_world` whose consumers are child processes, in steps.

The child takes permits and ends records at any time, also between two steps of the core; its thread, which
needs the lock, takes batches, reads words and hands in. Children die amid their records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.workers.processes.inbox import ChildInbox
from tests.lanes.inbox_world import World

if TYPE_CHECKING:
    from ehkafka.lanes.inbox import Entry, Inbox


class PlayedPermits:
    """The permits on a batch's records."""

    def __init__(self) -> None:
        self.number = 0

    def offer(self, records: int) -> None:
        """Put down one for each record."""
        self.number += records

    def left(self) -> int:
        """How many nothing has taken."""
        return self.number

    def take(self, records: int = 1) -> int:
        """Take so many."""
        taken = min(records, self.number)
        self.number -= taken
        return taken


class ChildConsumer:
    """A child and the thread that owns it."""

    def __init__(self, world: World, inbox: Inbox) -> None:
        assert isinstance(inbox, ChildInbox)
        self.world, self.inbox = world, inbox
        self.permits = PlayedPermits()
        inbox.permits = self.permits  # type: ignore[assignment]
        self.leaves = self.lists = self.is_dead = False
        # The child's: its batch and the place it has come to, the record that runs, places of what failed.
        self.batch: list[Entry] = []
        self.place = 0
        self.entry: Entry | None = None
        self.failed: list[int] = []
        self.is_done = False
        # The thread's: how many places it has let go.
        self.settled = 0

    def has_any(self) -> list[Entry]:
        """Return what it runs."""
        return [] if self.entry is None else [self.entry]

    def note_idle(self) -> None:
        """As `Hub.note_idle`."""
        if not self.inbox.listed:
            self.inbox.listed = True
            self.world.core.router.idle.append(self.inbox)

    def step(self, *, may_fail: bool) -> None:
        """Do one step of the child's or, where the lock is free, of its thread's."""
        r = self.world.r
        if r.random() < self.world.preempted:
            return
        if not may_fail or r.random() < 0.7:
            self._run(may_fail=may_fail)
        else:
            self._use_lock()

    # -- the child -----------------------------------------------------------------------------------------

    def _run(self, *, may_fail: bool) -> None:
        world = self.world
        if self.is_dead or self.is_done or not self.batch:
            return
        if (entry := self.entry) is not None:
            self.entry = None
            if may_fail and world.r.random() < world.failing:
                self.failed.append(self.place - 1)
                name = world.name(entry)
                self.is_done = name in [world.name(one) for one in self.batch[self.place :]]
            else:
                world.ends(entry)
        elif self.place == len(self.batch) or not self.permits.left():
            self.is_done = True
        else:
            self.permits.take()
            self.entry = self.batch[self.place]
            self.place += 1
            world.starts(self.entry)

    # -- its thread ----------------------------------------------------------------------------------------

    def _use_lock(self) -> None:
        world, inbox, r = self.world, self.inbox, self.world.r
        if self.leaves:
            world.rests(self, has_lock=True)
        elif self.batch:
            # Killed between two records, it would be charged with one that had ended, which then runs again.
            if self.entry is not None and r.random() < world.failing / 4:
                self.is_dead = True
            world.do(self._hand_in)
            world.handle()
        elif self.is_dead:
            inbox.head = []
            self.is_dead = r.random() < 0.5
            if not self.is_dead:
                inbox.head = None
        else:
            self.batch = inbox.take(r.randint(1, 6), 1 << 20, one_of_a_key=r.random() < 0.1)
            if not self.batch:
                world.rests(self, has_lock=True)

    def _hand_in(self) -> None:
        """Take what has ended, as `BatchRun` does: permits first, words second."""
        world, inbox, is_over = self.world, self.inbox, self.is_done or self.is_dead
        if is_over or world.r.random() < 0.2:
            inbox.withdraw()
        started = self.settled + inbox.begun()
        if self.is_dead:
            assert self.entry is not None
            self.entry = None
            self.failed.append(started - 1)
        failed, self.failed = self.failed, []
        entries = [self.batch[place] for place in failed]
        if entries:
            failures = [(entry, world.decide(entry, ()), ()) for entry in entries]
            world.core.waiting.fail(inbox, failures, world.now_s)
        ended = started if is_over else max(started - 1, self.settled, *(place + 1 for place in failed), 0)
        assert isinstance(inbox.head, list)
        inbox.head = None if is_over else inbox.head[ended - self.settled - len(failed) :]
        self.settled = ended
        if is_over:
            self.batch, self.place, self.settled = [], 0, 0
            self.is_done = False
        world.core.router.note(inbox)


class ChildWorld(World):
    """A world of children."""

    make_inbox = ChildInbox

    def __init__(self, seed: int) -> None:
        super().__init__(seed, is_batch=False, is_unread=False, is_narrow=False)

    def consume(self, inboxes: list[Inbox]) -> None:
        """Let a child begin for each inbox."""
        self.consumers += [ChildConsumer(self, inbox) for inbox in inboxes]

    def is_over(self) -> bool:
        """Tell whether everything has ended, and is known to."""
        return super().is_over() and not any(consumer.batch for consumer in self.consumers)
