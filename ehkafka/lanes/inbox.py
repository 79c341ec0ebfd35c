"""The queue of one consumer: of a thread, a task, a batch worker or a child process.

Pure. The dispatcher appends on the right and takes back from the right, under its lock. The consumer removes
from the left without a lock, by one protocol, on which the whole order of keys rests:

1. It *shows* a record (`head = q[0]`), then removes it (`q.popleft()`), then calls the handler.
2. It shows the next record, or None, only once the call has ended.
3. On an `IndexError` it looks whether the inbox has another queue, since taking back replaces it.

So a thread that reads `q` first and `head` second sees each unfinished record at least once: the holder of
the lock reads what is finished, and no consumer reports it.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.routing import Name
    from ehkafka.records import Message

    # What waits and runs: a message, its key, its size in bytes and its epoch. The key was asked for once,
    # outside of the lock, and the size was counted once; both travel with the message. What waits with its
    # key unread is in runs, and a driver may want just the messages of these in its queue: see `unread`.
    Entry = tuple[Message, Hashable, int, Epoch]
    # The inbox that has a key's unfinished records, and the number of the last one there.
    Owner = tuple["Inbox", int]

MESSAGE: Final = 0
KEY: Final = 1
SIZE: Final = 2
EPOCH: Final = 3
# A number that no inbox reaches: an inbox that waits owns its keys until it lets them go.
FOREVER: Final = 1 << 60


class Inbox:
    """The records of one consumer, in order.

    Fields that the consumer writes are marked; all others belong to the lock's holder. A record's *number* is
    its place among all that were ever appended and not taken back.
    """

    __slots__ = (
        "asleep",
        "ended",
        "frozen",
        "gate",
        "head",
        "leaves",
        "listed",
        "log",
        "make_queue",
        "noted",
        "number",
        "q",
        "removed",
        "seen",
        "seen_s",
        "sent",
        "slack",
        "stuck",
    )

    def __init__(self, number: int, make_queue: Callable[[], deque[Any]] = deque) -> None:
        """`make_queue` makes what a test wants to watch; `number` names the inbox in logs."""
        self.number = number
        self.make_queue = make_queue
        self.q: deque[Entry] = make_queue()
        # The same records, and in front of them those that were removed and are not known to be finished.
        self.log: deque[Entry] = deque()
        # The number of the last record appended; how many of the removed ones are known to be finished.
        # Invariant: len(log) == sent - noted.
        self.sent = 0
        self.noted = 0
        # The highest number seen to have ended; its key may be in another inbox since.
        # Invariant: a record that was seen to have ended is never counted as running again.
        self.ended = 0
        # The consumer's: the record that runs, or the list of those that a batch or a child process has.
        self.head: Entry | Message | list[Entry] | None = None
        # `head` may stand for this many of the last removed records.
        self.slack = 1
        # Its consumer has posted a failure and waits until the dispatcher has taken it over.
        self.frozen = False
        # The consumer's: it sleeps on its gate.
        self.asleep = False
        self.gate: Any = None
        # Its consumer is to leave once it has nothing.
        self.leaves = False
        # It is in the dispatcher's list of idle inboxes.
        self.listed = False
        # How many records had been removed at the last look.
        self.removed = 0
        # Its head has not moved for long: it takes no new keys. What the last look saw, and since when.
        self.stuck = False
        self.seen: object = None
        self.seen_s = 0.0

    def append(self, entry: Entry) -> int:
        """Put a record behind the others; return its number."""
        self.sent += 1
        self.log.append(entry)
        self.q.append(entry)
        return self.sent

    def take_back(self) -> list[Entry]:
        """Empty the queue and return what the consumer had not removed, in order.

        The queue is replaced first, then emptied from the right: what the consumer removes meanwhile is the
        left end, and stays in the log.
        """
        taken = self.empty_queue()
        self.log = deque(islice(self.log, len(self.log) - len(taken)))
        self.sent -= len(taken)
        return taken

    def empty_queue(self) -> list[Any]:
        """Return what the consumer had not removed, in order. The caller sees to `log` and `sent`."""
        q, self.q = self.q, self.make_queue()
        taken: list[Any] = []
        with suppress(IndexError):  # empty, by us or by the consumer
            taken.extend(iter(q.pop, None))  # there may be thousands
        taken.reverse()
        return taken

    def extend(self, entries: Sequence[Entry]) -> range:
        """Put records behind the others; return their numbers."""
        numbers = range(self.sent + 1, self.sent + 1 + len(entries))
        self.sent += len(entries)
        self.log.extend(entries)
        self.q.extend(entries)
        return numbers

    def has_waiting(self, number: int) -> bool:
        """Tell whether the record of that number waits here: its consumer has not removed it."""
        return number > self.sent - len(self.q)

    def is_live(self, number: int) -> bool:
        """Tell whether the record of that number may be unfinished. Never False for one that is.

        A wrong True costs the key's next record a place in a longer queue, and nothing else.
        """
        ahead = number - self.sent + len(self.q)  # above 0 it waits; at 0 it was removed last
        if ahead > 0 or (ahead > -self.slack and self.head is not None):
            return True
        self.ended = max(self.ended, number)
        return False

    def count_finished(self) -> int:
        """Return how many removed records have finished since the last call. The caller sees to `log`."""
        waiting = len(self.q)  # first what waits, second what runs
        head = self.head
        removed = self.sent - waiting - self.noted
        if removed <= 0:
            return 0
        # A head that was only shown lets the one before count as running until its consumer continues, unless
        # that was seen to have ended before the head was shown.
        running = 0 if head is None else len(head) if isinstance(head, list) else 1
        self.noted += (finished := max(removed - running, self.ended - self.noted))
        return finished

    def take_finished(self) -> list[Entry]:
        """Return the removed records that have finished since the last call, in order."""
        popleft = self.log.popleft
        return [popleft() for _ in range(self.count_finished())]

    def running(self) -> list[Entry]:
        """Return the removed records that are unfinished. Call it after `take_finished`."""
        return list(islice(self.log, self.sent - self.noted - len(self.q)))

    def give_up(self, entries: Sequence[Entry]) -> None:
        """Take unfinished records away from a consumer that waits for it. Call it after `take_finished`."""
        gone = {id(entry[MESSAGE]) for entry in entries}
        running = self.running()
        kept = [entry for entry in running if id(entry[MESSAGE]) not in gone]
        if len(running) - len(kept) != len(gone):
            raise LookupError(f"inbox {self.number} does not have these records")
        for _ in running:
            self.log.popleft()
        self.log.extendleft(reversed(kept))
        self.noted += len(gone)
        if isinstance(self.head, list):
            self.head = [entry for entry in self.head if id(entry[MESSAGE]) not in gone]
        else:
            self.head = None

    def owner_behind(self, _name: Name) -> Owner | None:
        """Return what may still run of a key elsewhere. Inboxes that wait know it."""
        return None

    def is_empty(self) -> bool:
        """Tell whether nothing waits here and nothing runs."""
        return not self.q and self.head is None
