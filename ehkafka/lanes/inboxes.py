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
from ehkafka.lanes.inbox import EPOCH, MESSAGE, Inbox
from ehkafka.lanes.outliving import Outliving
from ehkafka.lanes.piles import Pile
from ehkafka.lanes.routing import Router
from ehkafka.lanes.waiting import WaitingKeys
from ehkafka.lanes.width import Width
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.finished import FinishedBefore
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.order import Scope
    from ehkafka.lanes.unread import ReadKeys
    from ehkafka.records import Message

    # One partition's part of what was received: its epoch, messages, the keys of those that are not skipped,
    # the offsets that are, and the bytes of each message.
    Part = tuple[Epoch, Sequence[Message], Sequence[Hashable] | None, Container[int], Sequence[int]]


class Inboxes:
    """The received records of one handler, in all partitions that are assigned."""

    def __init__(
        self,
        number: int,
        scope: Scope = "partition",
        make_queue: Callable[[], deque[Any]] = deque,
        make_inbox: type[Inbox] = Inbox,
        *,
        read_keys: ReadKeys | None = None,
        cores: int | None = None,
    ) -> None:
        """`number`: of consumers, `make_inbox`: their kind. `make_queue` makes what a test wants to watch.

        `read_keys` reads keys without the user's code: then some go unread, see `unread`. `cores`: how many
        consumers a computing handler gets; None: all always take new keys, see `width`.
        """
        shared = scope == "handler"
        self.router = Router(
            number,
            is_shared=shared,
            make_queue=make_queue,
            make_inbox=make_inbox,
            read_keys=None if shared else read_keys,
        )
        self.waiting = WaitingKeys(self.router)
        self.ending = Ending(self.router, self.waiting)
        self.outliving = Outliving(self.router, self.waiting)
        self.balance = Balance(self.router, Width(cores))
        self.tally = self.router.tally

    @property
    def inboxes(self) -> list[Inbox]:
        """The inboxes of all consumers."""
        return self.router.inboxes

    # -- epochs ----------------------------------------------------------------------------------------

    def assign(
        self,
        partition: TopicPartition,
        number: int,
        *,
        finished_before: FinishedBefore | None = None,
        opened: bool = True,
    ) -> Epoch:
        """Begin an epoch. With `opened=False` its records wait for `open`."""
        epoch = self.ending.begin(partition, number, finished_before)
        if not opened:
            self.router.piles.hold_back(epoch)
        return epoch

    def open(self, epoch: Epoch) -> None:
        """Let the records of an epoch start, now that the user's code is ready for them."""
        self.router.piles.let_in(epoch)

    # -- questions -------------------------------------------------------------------------------------

    def all_inboxes(self) -> list[Inbox]:
        """Return the inboxes of all consumers, those that are to go included."""
        return [*self.router.inboxes, *self.router.leaving]

    def running(self) -> list[Entry]:
        """Return what runs now, with its keys; those records included whose epoch has ended."""
        self.router.note_all()
        running = [entry for inbox in self.all_inboxes() for entry in inbox.running()]
        return self.router.unread.with_keys(running)

    def is_running(self, message: Message) -> bool | None:
        """Tell whether a record is with its handler, or about to be, by the very message.

        None where that is not known: its epoch may have ended, or it is another app's.
        """
        topic = message.topic()
        # A handler of messages may have set any topic.
        if type(topic) is not str or TopicPartition(topic, message.partition()) not in self.router.epochs:
            return None
        return any(entry[MESSAGE] is message for entry in self.router.shown())

    # -- records ---------------------------------------------------------------------------------------

    def receive(
        self,
        epoch: Epoch,
        messages: Sequence[Message],
        keys: Sequence[Hashable] | None,
        now_s: float,
        skipped: Container[int] = (),
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Route one partition's records, ascending. `keys` has one for each message that is not skipped.

        `keys` may be None where `Unread.needs_no_keys` said so: they are read when they are needed. Offsets
        in `skipped` get that result as they arrive: they are too old to be handled. `sizes` are the bytes of
        each message, where they were counted before.
        """
        epoch.received.note(messages, now_s)
        # Counted in now and counted out with the same bytes: a handler may set another value meanwhile.
        fresh, sizes = messages, sizes_of(messages) if sizes is None else sizes
        if skipped:
            places = [place for place, one in enumerate(messages) if one.offset() not in skipped]
            self._count_passed(epoch, len(messages) - len(places), "skipped_records")
            fresh, sizes = _take(fresh, places), _take(sizes, places)
        if (left := epoch.received.fresh(fresh)) is not None:
            self._count_passed(epoch, len(fresh) - len(left), "finished_records", "restored_records")
            fresh, sizes = _take(fresh, left), _take(sizes, left)
            keys = None if keys is None else _take(keys, left)
        unread = self.router.unread
        if fresh and unread.takes():
            unread.receive(epoch, fresh, sizes)
        elif fresh:
            keys = unread.read(fresh) if keys is None else keys
            self.router.route(epoch, list(zip(fresh, keys, sizes, repeat(epoch))))

    def _count_passed(self, epoch: Epoch, records: int, *counts: str) -> None:
        """Count records that have their result as they arrive; they never enter an inbox."""
        epoch.tally.add(**dict.fromkeys(("received_records", *counts), records))
        epoch.is_extent_due |= records > 0

    def take(self, inbox: Inbox, records_max: int) -> list[Entry]:
        """Let a batch worker, or a child process, have up to so many records at once."""
        self.router.note(inbox)  # what it had before; below it has more than `head` shows
        q = inbox.q
        entries = [q.popleft() for _ in range(min(records_max, len(q)))]
        inbox.head, inbox.slack = entries or None, max(1, len(entries))
        return entries

    def end_batch(self, inbox: Inbox, skipped: Sequence[Entry] = ()) -> None:
        """End what a batch worker has; of these records with the result *skipped*."""
        inbox.head = None
        self.router.note(inbox)
        for entry in skipped:
            if not entry[EPOCH].ended:  # counted as finished just now
                entry[EPOCH].tally.add(finished_records=-1, skipped_records=1)

    def take_touched(self) -> list[Inbox]:
        """Return the inboxes whose consumers have something new; new records of waiting keys are counted."""
        self.router.slow.go_on()
        touched = self.router.touched
        self.router.moving()  # takes note of them
        consumers: set[Inbox] = set()
        while touched:
            inbox = touched.pop()
            if isinstance(inbox, Held):
                inbox.count()
                if inbox in self.waiting.held:
                    self.waiting.arrived(inbox)
            elif not isinstance(inbox, Pile):
                consumers.add(inbox)
        return list(consumers)

    def check(self, now_s: float, waits: int | None = None) -> None:
        """Let retries go whose time has come, and balance."""
        self.waiting.retry_due(now_s)
        self.balance.check(now_s, waits)


def _take(values: Sequence[object], places: Sequence[int]) -> list[Any]:
    return [values[place] for place in places]
