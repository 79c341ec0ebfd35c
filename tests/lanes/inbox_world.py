"""A random world around the inboxes of one handler: consumers in steps, failures, rebalances, commands.

Consumers may be preempted anywhere, also between showing a record and removing it, and for as long as an
epoch lasts. What is true is kept here, apart from the core, and compared.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ehkafka.lanes import resizing
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.lanes.finished import FinishedBefore
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, Inbox
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.unread import UNREAD
from ehkafka.lanes.width import Width
from ehkafka.records import Outcome, TopicPartition
from tests.kit.simulated.worker import watched_queue
from tests.lanes.inbox_commands import Commands
from tests.lanes.inbox_consumers import BatchConsumer, Consumer, Message

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.lanes.decision import Ticket
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry


class World(Commands):
    """One history."""

    # The kind of inbox that consumers have, where it is not the common one.
    make_inbox: type[Inbox] = Inbox

    def __init__(self, seed: int, **chosen: Any) -> None:
        """`chosen` are properties that are not left to chance."""
        r = self.r = random.Random(seed)
        self.is_batch = r.random() < 0.35
        self.is_shared = r.random() < 0.4
        self.partitions, self.keys = range(r.randint(1, 4)), r.choice((1, 3, 20, 200))
        self.failing = r.choice((0, 0.02, 0.2, 0.2))
        self.preempted = r.choice((0, 0.01, 0.1))
        self.is_unread = r.random() < 0.6
        self.is_narrow = seed % 3 == 0 if self.is_batch else r.random() < 0.4
        vars(self).update(chosen)
        # Few commands and rebalances, and mostly one consumer: keys stay unread while others wait.
        self.is_calm = self.is_unread and not (self.is_batch or self.is_shared) and seed % 2 == 0
        self.is_bare = not self.is_batch and seed % 4 < 3  # a batch consumer takes entries
        super().__init__(self.partitions, is_shared=self.is_shared)
        self.depth = self.steps = 0
        self.now_s = 0.0
        self.log: dict[int, list[int | None]] = {p: [] for p in self.partitions}
        self.sent = dict.fromkeys(self.partitions, 0)
        self.epochs: dict[int, Epoch] = {}
        self.committed = dict.fromkeys(self.partitions, 0)
        self.ranges: dict[int, tuple[tuple[int, int], ...]] = {}
        self.tickets: list[Ticket] = []
        self.awaited: set[int] = set()
        self.numbers = 0
        self.core = Inboxes(
            1 if self.is_calm and seed % 8 else r.choice((1, 2, 5, 12)),
            "handler" if self.is_shared else "partition",
            watched_queue(self.between),
            self.make_inbox,
            read_keys=_keys if self.is_unread else None,
            cores=r.choice((1, 2)) if self.is_narrow else None,
        )
        self.core.waiting.divert = lambda _attempt, *_reason: AwaitHead("diverted", _begin)
        unread = self.core.router.unread
        unread.is_bare = self.is_bare
        if self.is_calm:
            unread.inspected_records, unread.read_records = (
                (1, 3, 10, 1_000)[seed // 2 % 4],
                (1, 2, 32)[seed % 3],
            )
        if self.is_batch:
            self.core.router.deep = r.choice((0, 3, 6))
        self.consume(self.core.inboxes)
        for p in self.partitions:
            self.begin(p)

    # Consumers.

    def consume(self, inboxes: list[Inbox]) -> None:
        """Let a consumer of its own begin for each inbox."""
        kind = BatchConsumer if self.is_batch else Consumer
        self.consumers += [kind(self, inbox) for inbox in inboxes]

    def rests(self, consumer: Any, *, has_lock: bool) -> None:
        """A consumer has nothing: it leaves, if it is to go and gets the lock, or waits."""
        if consumer.inbox not in self.core.router.leaving:
            consumer.leaves = False  # it may stay
            consumer.note_idle()
        elif not consumer.leaves:
            consumer.leaves = True  # in its next step, if it gets the lock
        elif has_lock:
            consumer.leaves = False
            if resizing.leave(self.core.router, consumer.inbox):
                self.consumers.remove(consumer)

    def resize(self) -> None:
        """Let consumers come or go, or stay that were to go."""
        core, number = self.core, self.r.randint(1, 3)
        if self.r.random() < 0.5 and len(core.inboxes) > number:
            self.do(resizing.shrink, core.router, number)
        elif self.r.random() < 0.5:
            self.do(resizing.stay, core.router, number)
        elif len(core.inboxes) < 12:
            self.consume(resizing.grow(core.router, number))

    # What fails.

    def decide(self, entry: Entry, later: Any) -> Any:
        """Decide what becomes of a failed record."""
        entry, *later = self.core.router.unread.with_keys((entry, *later))
        for one in (entry, *later):
            self.stops(one)
        if later:  # the others of its key were in the batch and have not been handled
            self.last[self.name(entry)] = entry[MESSAGE].serial  # type: ignore[attr-defined]
        x = self.r.random()
        decision: Any = HoldHead("held")
        if x < 0.4:
            decision = RetryHead(self.r.random() * 0.05, "again")
        elif x < 0.5:
            decision = SkipHead("skipped")
            if not entry[EPOCH].ended:
                self.outcome(entry)
        elif x < 0.85 and entry[MESSAGE].serial not in self.freed:  # type: ignore[attr-defined]
            after: Any = self.r.choice(("continue", "hold_key", "divert_key"))
            decision = AwaitHead("asked", _begin, after)
            # Its work goes on outside, whatever the core makes of it.
            self.running.setdefault(self.name(entry), []).append(entry[MESSAGE])  # type: ignore[arg-type]
            self.awaited.add(id(entry[MESSAGE]))
        if isinstance(decision, HoldHead | RetryHead) and not entry[EPOCH].ended:
            self.unsettled[self.name(entry)] = entry
        return decision

    def handle(self) -> None:
        """Let the core take over what failed, and ask for what is awaited."""
        for inbox, failures in self.failed:
            decided = [(entry, self.decide(entry, later), later) for entry, later in failures]
            self.core.waiting.fail(inbox, decided, self.now_s)
            # A batch's other records have ended.
            self.core.end_batch(inbox)
            inbox.frozen = False
        for inbox in self.inspections:
            self.core.router.unread.inspect(inbox)
            inbox.frozen = False
        self.failed, self.inspections = [], []
        self.core.take_touched()
        outbox = self.core.waiting.outbox
        while outbox:
            ticket = outbox.popleft()
            if ticket.held.ticket is ticket and ticket.held.q:
                entry = ticket.held.q[0]
                if id(entry[MESSAGE]) in self.awaited:
                    self.awaited.remove(id(entry[MESSAGE]))
                else:  # a dead letter because of an earlier one
                    self.running.setdefault(self.name(entry), []).append(entry[MESSAGE])  # type: ignore[arg-type]
                self.tickets.append(ticket)
        self.core.take_touched()

    def answer(self) -> None:
        """Answer a ticket."""
        ticket = self.tickets.pop(self.r.randrange(len(self.tickets)))
        held = ticket.held
        if held.ticket is not ticket or held not in self.core.waiting.held:
            # A second answer counts for nothing.
            self.core.waiting.answer(ticket, Outcome.FINISHED, self.now_s)
            return
        entry = held.q[0]
        self.stops(entry)
        answer: Any = self.r.choice((Outcome.FINISHED, Outcome.DEAD_LETTERED, Outcome.DEAD_LETTERED, None))
        if answer is None:
            answer = RetryHead(0.01, "again")
        elif not entry[EPOCH].ended:
            self.outcome(entry)
        if answer is Outcome.DEAD_LETTERED and not entry[EPOCH].ended and ticket.decision.after != "continue":
            self.followed.add(self.name(entry))
        self.core.waiting.answer(ticket, answer, self.now_s)

    # Steps.

    def between(self) -> None:
        """Let consumers run between two steps of the core."""
        if self.depth or not self.inside or self.is_batch:
            return
        self.depth = 1
        while self.r.random() < 0.3:
            consumer = self.r.choice(self.consumers)
            for _ in range(self.r.choice((1, 1, 2, 5))):
                consumer.step(may_fail=False)
        self.depth = 0

    def step(self) -> None:
        """Do one step."""
        self.steps += 1
        self.r.choice(self.consumers).step(may_fail=True)

    def do(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """Call the core while consumers run between its steps."""
        self.inside = True
        result = what(*arguments)
        self.inside = False
        self.core.take_touched()
        return result

    # Partitions.

    def begin(self, p: int) -> None:
        """Assign a partition."""
        before, start = None, self.committed[p]
        if self.ranges.get(p):
            before = FinishedBefore(self.ranges[p])
        self.numbers += 1
        epoch = self.core.ending.begin(TopicPartition("t", p), self.numbers, before)
        self.finished[epoch] = set()
        for a, b in self.ranges.get(p, ()):
            self.finished[epoch].update(range(a, b))
        self.epochs[p], self.sent[p] = epoch, start
        if self.r.random() < (0.02 if self.is_calm else 0.2):
            self.core.router.piles.hold_back(epoch)

    def give_up(self, partitions: list[int], *, drains: bool) -> None:
        """Revoke or lose partitions."""
        epochs = [self.epochs[p] for p in partitions]
        if self.r.random() < 0.3:  # what has failed waits for a consumer again
            self.now_s += 0.1
            self.do(self.core.waiting.retry_due, self.now_s)
        if drains:
            fits = self.r.choice((None, lambda _work: True, lambda work: work.records < 10))
            for _ in range(self.r.randint(1, 40)):
                self.do(self.core.ending.drain, epochs, fits)
                self.handle()
                for _ in range(self.r.randint(0, 4)):
                    self.step()
                if self.r.random() < 0.4:
                    self.act(self.r.uniform(0.76, 0.86))  # a check, a commit or an answer
                if self.r.random() < 0.1:
                    self.deliver(self.r.choice(partitions), 5)
                    for _ in range(self.r.randint(0, 8)):
                        self.step()
        self.handle()
        self.commit()
        for p in partitions:
            del self.epochs[p]
        self.do(self.core.ending.end, epochs)
        for epoch in epochs:
            assert epoch.tally.unfinished_records == 0, ("unfinished in an ended epoch", epoch.tally)
        if not self.epochs:
            assert all(held.ticket is not None for held in self.core.waiting.held), "held without a partition"
        if not self.is_shared:
            self.followed = {name for name in self.followed if name[0] not in partitions}
        elif not self.epochs:
            self.followed.clear()

    def commit(self) -> None:
        """Compare what could be committed with what is true."""
        self.do(self.core.router.note_all)
        for p, epoch in self.epochs.items():
            watermark = epoch.watermark()
            if watermark is None:
                continue
            low = next(o for o in range(len(self.log[p]) + 1) if o not in self.done[p])
            assert watermark <= low, ("premature", p, watermark, low)
            extent = epoch.extent()
            assert extent is not None
            for a, b in extent.finished():
                assert all(o in self.done[p] for o in range(a, b)), ("range premature", p, a, b)
            assert watermark >= self.committed[p], ("the commit goes back", p, watermark)
            self.committed[p], self.ranges[p] = watermark, extent.finished()
        self.check_counts()

    def check_counts(self) -> None:
        """Compare counts with each other."""
        for tally in (self.core.tally, *(epoch.tally for epoch in self.epochs.values())):
            counted = tally.outcomes + tally.returned_records + tally.unfinished_records
            assert tally.received_records == counted, ("counts", tally.received_records, counted)
            assert min(tally.backlog_records, tally.parked_records, tally.parked_bytes) >= 0
        for inbox in self.core.all_inboxes():
            assert len(list(inbox.log)) == inbox.sent - inbox.noted
        for held in self.core.waiting.held:
            assert held.is_parked or held.ticket is not None, ("waits in the backlog for ever", held.key)
        self.check_answers(self.core)
        for epoch in self.epochs.values():
            assert UNREAD not in epoch.owners, "owned by no key"
            if self.core.router.unread.inbox is None:
                assert all(entry[KEY] is not UNREAD for entry in epoch.unfinished()), "a key stays unread"

    def check(self) -> None:
        """Let time pass and look."""
        self.now_s += self.r.choice((0.001, 0.006, 0.03))
        if self.is_narrow and self.r.random() < 0.2:
            self.core.balance.width = Width(self.r.choice((1, 2)))  # one is tried again
        self.do(self.core.check, self.now_s, self.r.choice((None, 0.0, self.now_s)))

    def deliver(self, p: int, records: int) -> None:
        """Receive records of a partition."""
        if p not in self.epochs:
            return
        offsets = range(self.sent[p], min(len(self.log[p]), self.sent[p] + records))
        if not offsets:
            return
        batch = [Message(p, offset, self.log[p][offset]) for offset in offsets]
        for message in batch:
            message.epoch = self.epochs[p]
        keys = None if self.core.router.unread.needs_no_keys() and self.r.random() < 0.8 else _keys(batch)
        self.sent[p] += len(batch)
        self.do(self.core.receive, self.epochs[p], batch, keys, self.now_s)
        if self.r.random() < 0.2:
            self.commit()

    def produce(self, p: int) -> None:
        """Append records to a log."""
        for _ in range(self.r.randint(1, 30)):
            self.log[p].append(None if self.r.random() < 0.1 else self.r.randrange(self.keys))

    # The history.

    def run(self) -> None:
        """Play the whole history."""
        for _ in range(self.r.randint(50, 500)):
            self.handle()
            self.act(self.r.random())
        self.finish()

    def act(self, x: float) -> None:
        """Do one random thing."""
        r = self.r
        if x < 0.2:
            p = r.choice(self.partitions)
            if x < 0.1:
                self.produce(p)
            self.deliver(p, r.choice((1, 3, 10, 40)))
        elif x < 0.72:
            for _ in range(r.randint(1, 10)):
                self.step()
        elif x < 0.8:
            self.check()
        elif x < 0.83:
            self.commit()
        elif x < 0.86:
            if self.tickets:
                self.answer()
        elif self.is_calm and r.random() < 0.95:
            self.step()
        elif x < 0.95:
            self.command(r.random())
        else:
            self.act_rarely(x)

    def act_rarely(self, x: float) -> None:
        """Do one thing that changes more."""
        r, core = self.r, self.core
        if x < 0.965 and self.epochs:
            partitions = r.sample(list(self.epochs), r.randint(1, len(self.epochs)))
            self.give_up(partitions, drains=r.random() < 0.6)
        elif x < 0.985:
            for p in self.partitions:
                if p not in self.epochs and r.random() < 0.7:
                    self.begin(p)
        elif x < 0.99:
            self.resize()
        elif core.router.piles.unopened:
            self.do(core.router.piles.let_in, r.choice(list(core.router.piles.unopened)))

    def finish(self) -> None:
        """Let everything end: what cannot has been lost, or waits for ever."""
        self.failing = self.preempted = 0
        core = self.core
        for p in self.partitions:
            if p not in self.epochs:
                self.begin(p)
        for _ in range(3000):
            self.handle()
            self.do(core.router.piles.resume)
            for epoch in list(core.router.piles.unopened):
                self.do(core.router.piles.let_in, epoch)
            self.release()
            while self.tickets:
                self.answer()
                self.handle()
            for p in self.partitions:
                self.deliver(p, 50)
            for _ in range(40):
                self.step()
            self.check()
            if self.is_over():
                break
        self.steps += 1000
        for _ in range(200):
            self.step()
        self.commit()
        assert not core.router.leaving, "a consumer does not leave"
        self.check_end()

    def is_over(self) -> bool:
        """Tell whether everything has ended."""
        all_done = all(len(self.done[p]) == len(self.log[p]) for p in self.partitions)
        received = all(self.sent[p] == len(self.log[p]) for p in self.partitions)
        return all_done and received and not self.running and not self.core.waiting.held

    def check_end(self) -> None:
        """Check that nothing is left."""
        core = self.core
        for p in self.partitions:
            missing = [o for o in range(len(self.log[p])) if o not in self.done[p]]
            assert not missing, ("lost or stuck", p, missing[:5], len(missing))
            if self.log[p]:
                assert self.committed[p] == len(self.log[p]), ("the watermark is stuck", p, self.committed[p])
        assert not core.waiting.held, ("held for ever", list(core.waiting.held))
        assert all(inbox.is_empty() for inbox in core.inboxes), "not empty"
        for tally in (core.tally, *(epoch.tally for epoch in self.epochs.values())):
            left = (tally.backlog_records, tally.backlog_bytes, tally.parked_records, tally.parked_bytes)
            assert left == (0, 0, 0, 0), ("left over", left)
        assert not core.router.attempts, "attempts of records that have ended"
        assert not core.router.freed, "calls that have ended"


def _keys(messages: Sequence[Any]) -> list[Hashable]:
    return [message.lane_key for message in messages]


def _begin(_ticket: Ticket) -> None:
    """The driver's business."""


def run_seed(seed: int, kind: type[World] = World, **chosen: Any) -> int:
    """Run one history; return how many calls it made."""
    world = kind(seed, **chosen)
    world.run()
    return world.calls


SEEDS_MAX = 1_500


def histories(seeds: int = SEEDS_MAX, kind: type[World] = World, *, first: int = 0, **chosen: Any) -> None:
    """Run histories, from the one that noticed a mutant when this was written; raises what is wrong."""
    for seed in range(first, first + seeds):
        run_seed(seed, kind, **chosen)
