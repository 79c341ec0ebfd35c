"""The inboxes of one handler: routes received records, takes back, holds, and knows what is unfinished.

A pure state machine: no lock, thread or clock of its own; time comes in as an argument. All calls need the
lock. Consumers run at the same time without it, and touch only their own inbox, by the protocol of `inbox`.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.balance import Balance
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.held import Held
from ehkafka.lanes.routing import Pile, Router
from ehkafka.lanes.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Sequence

    from ehkafka.lanes.decision import Answer, Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Ticket
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.order import Scope
    from ehkafka.records import Message


class Inboxes:
    """What one handler has received, over all partitions it is assigned."""

    def __init__(
        self, number: int, scope: Scope = "partition", make_queue: Callable[[], deque[Any]] = deque
    ) -> None:
        """`number`: of consumers. `make_queue` makes what a test wants to watch."""
        self.router = Router(number, is_shared=scope == "handler", make_queue=make_queue)
        self.waiting = Waiting(self.router)
        self.ending = Ending(self.router, self.waiting)
        self.balance = Balance(self.router)
        self.tally = self.router.tally

    @property
    def inboxes(self) -> list[Inbox]:
        """The inboxes of all consumers."""
        return self.router.inboxes

    def receive(
        self,
        epoch: Epoch,
        messages: Sequence[Message],
        keys: Sequence[Hashable],
        now_s: float,
        skipped: Container[int] = (),
    ) -> None:
        """Route one partition's records, ascending. `keys` has one for each message that is not skipped.

        Offsets in `skipped` get that result as they arrive: they are too old to be handled.
        """
        epoch.received.note(messages, now_s)
        fresh = list(messages)
        if skipped:
            fresh = [message for message in messages if message.offset() not in skipped]
            self._count_passed(epoch, len(messages) - len(fresh), "skipped_records")
        if (places := epoch.received.fresh(fresh)) is not None:
            self._count_passed(epoch, len(fresh) - len(places), "finished_records", "restored_records")
            fresh, keys = [fresh[place] for place in places], [keys[place] for place in places]
        if fresh:
            # Counted in now and counted out with the same bytes: a handler may set another value meanwhile.
            self.router.route(epoch, list(zip(fresh, keys, sizes_of(fresh), repeat(epoch))))

    def _count_passed(self, epoch: Epoch, records: int, *counts: str) -> None:
        """Count records that have their result as they arrive; they never enter an inbox."""
        for tally in (epoch.tally, self.tally):
            for count in ("received_records", *counts):
                setattr(tally, count, getattr(tally, count) + records)
        epoch.is_extent_due |= records > 0

    def fail(
        self, inbox: Inbox, entry: Entry, decision: Decision, now_s: float, later: Sequence[Entry] = ()
    ) -> None:
        """Take a record over from its frozen consumer, with all later ones of its key. See `Waiting.fail`."""
        self.waiting.fail(inbox, entry, decision, now_s, later)
        self.router.touched.add(inbox)

    def answer(self, ticket: Ticket, answer: Answer, now_s: float) -> None:
        """Take the answer to a ticket."""
        self.waiting.answer(ticket, answer, now_s)

    def take(self, inbox: Inbox, records_max: int) -> list[Entry]:
        """Let a batch worker, or a child process, have up to so many records at once."""
        self.router.note(inbox)  # what it had before; below it has more than `head` shows
        q = inbox.q
        entries = [q.popleft() for _ in range(min(records_max, len(q)))]
        inbox.head, inbox.slack = entries or None, max(1, len(entries))
        return entries

    def take_touched(self) -> list[Inbox]:
        """Return the inboxes whose consumers have something new; new records of waiting keys are counted."""
        touched = self.router.touched
        consumers: set[Inbox] = set()
        while touched:
            inbox = touched.pop()
            if isinstance(inbox, Held):
                if inbox in self.waiting.held:
                    self.waiting.arrived(inbox)
            elif not isinstance(inbox, Pile):
                consumers.add(inbox)
        return list(consumers)

    def check(self, now_s: float) -> int:
        """Let retries go whose time has come, and balance. Return how many consumers are busy."""
        self.waiting.retry_due(now_s)
        return self.balance.check(now_s)
