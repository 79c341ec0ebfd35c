"""The lock around one handler's inboxes, which the poll thread and the consumers share.

The poll thread takes the lock to route received records, to balance, to cut and to commit. A consumer posts
a failure or an answer, and carries it out itself if the lock is free. Else the lock's holder does so, who
looks again after the release. A finished record is not posted: its inbox shows it. A consumer waits for the
lock when it leaves, and when a record has failed whose key was unread.

No user code runs under the lock. It is taken after `App._lock`, and before `Runtime._lock` and the event
bus's; never two hubs' at once.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes import resizing
from ehkafka.lanes.inbox import EPOCH, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from ehkafka.lanes.decision import Answer, Decision, HoldHead, Ticket
    from ehkafka.lanes.ending import Work
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.inboxes import Inboxes, Part
    from ehkafka.records import Message, TopicPartition
    from ehkafka.workers.call_times import CallTimes
    from ehkafka.workers.rate import Pace

# Between two checks of what does not move; longer where a check takes more than a fiftieth of it, or a tenth
# if it gave records to consumers that had none: others may have none as well.
CHECK_S: Final = 5e-3
# The same where a consumer has nothing, and others have more than they run.
IDLE_CHECK_S: Final = 1e-3
CHECK_SHARE: Final = 50
MOVING_SHARE: Final = 10
# But no longer than this, however many consumers there are: records wait behind those that do not move.
CHECK_S_MAX: Final = 0.25


class Hub:
    """Shared state of one handler's poll side and consumer side."""

    def __init__(self, inboxes: Inboxes, clock: Callable[[], float], pace: Pace | None = None) -> None:
        """`pace` is the handler's rate limit, which its consumers keep."""
        # Without the lock only its tallies, `balance` and single inboxes may be read, as guesses.
        self.inboxes = inboxes
        self.tally = inboxes.tally
        self.clock = clock
        self.pace = pace
        self._lock = threading.Lock()
        # Held, without the other one, while tickets begin.
        self._begins = threading.Lock()
        # What is to be done under the lock. Any thread appends; only the lock's holder pops.
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        # Wakes the consumers of inboxes that have something new. The driver's, set before it starts; called
        # by any thread, without the lock.
        self.wake: Callable[[Sequence[Inbox]], object] = lambda _inboxes: None
        # Where consumers count how long calls take; None while it is not wanted. Set once, by any thread.
        self.call_times: CallTimes | None = None
        # When the pool's own next wait ends, such as that for a full batch; None while there is none. The
        # pool's, set before it starts; called without the lock.
        self.own_due_s: Callable[[], float | None] = lambda: None
        # How often the thread of the first consumer has waited; None where it is not known. The driver's,
        # once it has started.
        self.count_waits: Callable[[], int | None] = lambda: None
        # Set once; consumers leave when they see it and find nothing.
        self.closed = False
        # Set once: nothing more will be received, so that no batch must wait for more.
        self.is_hurried = False
        self._next_check_s = self._idle_check_s = 0.0
        # What the poll thread itself has worked: while others have the interpreter, a check costs nothing.
        self._own_s = time.thread_time if clock is time.monotonic else clock
        # Whose turn it is among consumers that wait for the rate limit alike. Poll thread only.
        self._turn = 0

    @contextmanager
    def locked(self, *, noted: bool = True) -> Iterator[Inboxes]:
        """Give the inboxes, with all that was posted done and, if `noted`, all that finished counted.

        Waits for the lock. Wakes consumers afterwards.
        """
        with self._lock:
            self._do_posted()
            if noted:
                self.inboxes.router.note_all()
                self.inboxes.router.slow.go_on()
            yield self.inboxes
            touched = self.inboxes.take_touched()
        self._after(touched)
        self.settle()

    def receive(self, parts: Sequence[Part]) -> None:
        """Route what one `consume()` brought for this handler. Poll thread."""
        with self.locked(noted=False) as inboxes:
            now_s = self.clock()
            for epoch, messages, keys, skipped, sizes in parts:
                inboxes.receive(epoch, messages, keys, now_s, skipped, sizes)

    def post(self, function: Callable[..., object], *arguments: object) -> None:
        """Have something done under the lock, now or by its holder. Any thread that does not hold it."""
        self._posted.append((function, arguments))
        self.settle()

    def settle(self) -> None:
        """Do what was posted, unless another thread has the lock: that one looks again."""
        while self._posted and self._lock.acquire(blocking=False):
            try:
                self._do_posted()
                touched = self.inboxes.take_touched()
            finally:
                self._lock.release()
            self._after(touched)

    def _do_posted(self) -> None:
        posted = self._posted
        while posted:
            function, arguments = posted.popleft()
            function(*arguments)

    def _after(self, touched: Sequence[Inbox]) -> None:
        """Do what the dispatcher asked for, without the lock."""
        if touched:
            self.wake(touched)
        outbox = self.inboxes.waiting.outbox
        # One after another: a `begin` that has the answer calls this from within, and many would recurse.
        while outbox and self._begins.acquire(blocking=False):
            try:
                while outbox:
                    ticket = outbox.popleft()
                    ticket.decision.begin(ticket)
            finally:
                self._begins.release()

    # -- consumers -------------------------------------------------------------------------------------

    def fail(self, inbox: Inbox, entry: Entry, decision: Decision) -> None:
        """Have a failed or deferred record taken over, with all later ones of its key.

        The consumer then waits while `inbox.frozen`; its gate is opened afterwards. See `WaitingKeys.fail`.
        """
        inbox.frozen = True
        self.post(self._take_over, inbox, entry, decision)

    def _take_over(self, inbox: Inbox, entry: Entry, decision: Decision) -> None:
        self.inboxes.waiting.fail(inbox, ((entry, decision, ()),), self.clock())
        inbox.frozen = False

    def inspect(self, inbox: Inbox) -> None:
        """Have records of an inbox inspected: see `Unread.inspect`. Its consumer has none, and waits."""
        inbox.head = None
        inbox.frozen = True
        self.post(self._inspect, inbox)

    def _inspect(self, inbox: Inbox) -> None:
        self.inboxes.router.unread.inspect(inbox)
        self.inboxes.router.touched.add(inbox)
        inbox.frozen = False

    def note_idle(self, inbox: Inbox) -> None:
        """Let the next record of a new key come to an inbox whose consumer has nothing. Its consumer.

        Where records wait for others, and the poll thread rests because nothing has moved for a while, some
        of them come now.
        """
        if not inbox.listed:
            inbox.listed = True
            self.inboxes.router.idle.append(inbox)
        if self.inboxes.router.slow.keys or self.inboxes.router.unread.again:
            self.post(self.inboxes.router.note, inbox)  # its last record may be what others wait for
        if self.inboxes.balance.queued and self.clock() > self._idle_check_s:
            self.post(self._check_if_due)

    def leave(self, inbox: Inbox) -> bool:
        """Let a consumer leave whose inbox is in `router.leaving`; False where it must go on. It has nothing.

        Waits for the lock: else the dispatcher could put a record behind the consumer that has just left.
        """
        with self.locked(noted=False) as inboxes:
            return resizing.leave(inboxes.router, inbox)

    def answer(self, ticket: Ticket, answer: Answer) -> None:
        """Take what became of a ticket's record. Any thread without the lock; a second answer is ignored."""
        self.post(self.inboxes.waiting.answer, ticket, answer, self.clock())

    def hold_key(self, entry: Entry, decision: HoldHead) -> None:
        """Start nothing more of a record's key. Any thread without the lock."""
        self.post(self.inboxes.waiting.hold_key, entry, decision)

    def hurry(self) -> None:
        """Let no call wait for more records: nothing more will be received."""
        self.is_hurried = True
        self.wake(self.inboxes.all_inboxes())

    def close(self) -> None:
        """Let every consumer leave once it has nothing."""
        self.closed = True
        self.hurry()

    # -- the poll thread -------------------------------------------------------------------------------

    def watch(self) -> bool:
        """Do what is due: retries, and a check of what does not move. Often, by the poll thread.

        True while it must look again within milliseconds.
        """
        self.settle()
        now_s = self.clock()
        due_s = self.inboxes.waiting.earliest_s
        if now_s >= self._next_check_s:
            with self.locked(noted=False):
                self._check()
        elif due_s is not None and due_s <= now_s:
            # Without the check, which looks at all inboxes: retries may be due every millisecond.
            with self.locked(noted=False) as inboxes:
                inboxes.waiting.retry_due(now_s)
        if self.pace is not None and (tokens := self.pace.tokens):
            self._wake_waiting(tokens)
        if (due_s := self.own_due_s()) is not None and due_s <= now_s:
            self.wake(self.inboxes.all_inboxes())  # it sleeps by another clock than a test's
        # While nothing waits behind what runs, that ends without this thread.
        balance = self.inboxes.balance
        has_received = self.tally.received_records > balance.received_records
        waits = balance.queued or has_received or self.inboxes.router.slow.keys
        return bool(waits) and self.next_due_s() is None

    def _check_if_due(self) -> None:
        """Check once, however many consumers ask for it while the lock is taken."""
        if self.clock() > self._idle_check_s:
            self._check()

    def _check(self) -> None:
        """Caller has the lock."""
        self.inboxes.router.note_all()  # its cost is that of the records, not of the check
        now_s, own_s = self.clock(), self._own_s()
        self.inboxes.check(now_s, self.count_waits() if self.inboxes.balance.width.counts_waits else None)
        share = MOVING_SHARE if self.inboxes.balance.has_moved else CHECK_SHARE
        rest_s = share * (self._own_s() - own_s)
        self._next_check_s = now_s + min(CHECK_S_MAX, max(CHECK_S, rest_s))
        self._idle_check_s = now_s + min(CHECK_S_MAX, max(IDLE_CHECK_S, rest_s))

    def _wake_waiting(self, tokens: int) -> None:
        """Wake as many of the consumers that wait for the rate limit as may continue now.

        Those first whose next records keep the commit positions back most, so that what runs leaves no holes;
        in turn where that is equal.
        """
        waiting = [inbox for inbox in self.inboxes.router.moving_now() if inbox.asleep and inbox.q]
        self._turn += 1
        turn, turns = self._turn, len(self.inboxes.inboxes)
        self.wake(heapq.nsmallest(tokens, waiting, lambda one: (_distance(one), (one.number + turn) % turns)))

    def next_due_s(self) -> float | None:
        """Return when consumers may start records again; None when nothing waits for the rate limit."""
        if self.pace is None or not self.tally.backlog_records or self.pace.is_open:
            return None
        return self.pace.due_s

    def needs_s(self, work: Work, workers: int) -> float:
        """Return how long so many workers take for what a drain has to finish, as far as the past shows."""
        needed_s = work.needs_s(self.inboxes.balance.mean_s, workers)
        return needed_s if self.pace is None else max(needed_s, work.records / self.pace.rate_per_s)

    # -- questions, from any thread --------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """How many consumers have something now, about; not those that are to leave."""
        moving = self.inboxes.router.moving_now()
        return sum(inbox.head is not None and not inbox.leaves for inbox in moving)

    def waiting(self) -> tuple[int, int]:
        """Return for how many consumers records for a call wait, and how many could start, about.

        In addition to what runs; if a consumer were free.
        """
        waiting = self.inboxes.balance.waiting()
        least = max(1, self.inboxes.router.deep)
        fed = len(waiting) - waiting.count(0) if least == 1 else sum(one >= least for one in waiting)
        return fed, sum(waiting)

    def earliest_due_s(self) -> float | None:
        """Return when the next thing is due here that waits for a time: a retry, or the rate limit."""
        with self.locked() as inboxes:
            dues = [inboxes.waiting.next_due_s(), self.next_due_s(), self.own_due_s()]
        return min((due for due in dues if due is not None), default=None)

    def has_received(self, partition: TopicPartition, next_offset: int) -> bool:
        """Tell whether all of a partition up to there was routed, or has a result."""
        with self.locked(noted=False) as inboxes:
            epoch = inboxes.router.epochs.get(partition)
            return epoch is not None and (epoch.received.next_offset or 0) >= next_offset

    def is_at_rest(self, deferred: Container[Held], *, letters: bool) -> bool:
        """Tell whether no record of ours runs or could run now, except `deferred` ones.

        A call that outlives its epoch counts for nothing. With `letters`, a record whose dead letter is not
        acknowledged counts as running.
        """
        with self.locked() as inboxes:
            # A consumer that sleeps although records wait has found no token, or waits for more of them.
            due_s = self.own_due_s()
            sleeps = self.next_due_s() is not None or (due_s is not None and due_s > self.clock())
            for inbox in inboxes.all_inboxes():
                if inbox.frozen or (inbox.q and not (sleeps and inbox.asleep)):
                    return False
            if any(not entry[EPOCH].ended for entry in inboxes.router.shown()):
                return False
            return not letters or all(
                held.ticket is None or held in deferred for held in inboxes.waiting.held
            )

    def is_running(self, message: Message) -> bool | None:
        """Tell whether a record is with its handler; None where that is not known."""
        if self.closed:
            return None
        with self.locked(noted=False) as inboxes:
            return inboxes.is_running(message)

    def count_finished(self) -> int:
        """Return how many records have finished, those of a moment ago included."""
        with self.locked() as inboxes:
            return inboxes.tally.finished_records


def _distance(inbox: Inbox) -> int:
    """Return how far the next record of a consumer that sleeps lies above its commit position, about."""
    try:
        entry = inbox.q[0]
        return entry[MESSAGE].offset() - entry[EPOCH].order[0][MESSAGE].offset()
    except IndexError:  # it was taken back, or the last one before it has just finished
        return 0
