"""Records whose keys are not read: all of a handler's wait in one inbox, in the order received.

Pure; the caller has the lock. It serves quick handlers, which one consumer runs faster than several, and
handlers with one consumer. Records are kept in runs: a run costs one list for any number of records, and an
entry is made only on demand. All keys are read when a call fails or takes long, a command looks for a key, or
an assignment begins, drains or ends; and none goes unread while a key waits. Reading keys runs no user code:
handlers with an `order_by` of their own, or with the engine's messages, never use this module.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.routing import Router
    from ehkafka.records import Message

    ReadKeys = Callable[[Sequence[Message]], Sequence[Hashable]]

_key_of: Final = itemgetter(KEY)


class _Unread:
    """The key of a record that was not read."""

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Final = _Unread()


class UnreadRun:
    """Records of one partition, ascending. Those from the place `first` on are unfinished."""

    __slots__ = ("epoch", "first", "messages", "sizes")

    def __init__(self, epoch: Epoch, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        self.epoch = epoch
        self.messages = messages
        self.sizes = sizes
        self.first = 0

    def left(self) -> Sequence[Message]:
        """Return the messages of the unfinished ones."""
        return self.messages[self.first :]

    def entries(self) -> Iterator[Entry]:
        """Yield the unfinished ones."""
        return islice(zip(self.messages, repeat(UNREAD), self.sizes, repeat(self.epoch)), self.first, None)


class RunLog(deque[Any]):
    """The log of an inbox with unread records: entries, then runs. Reads like one of entries."""

    def __iter__(self) -> Iterator[Entry]:
        parts = deque.__iter__(self)
        return chain.from_iterable(one.entries() if isinstance(one, UnreadRun) else (one,) for one in parts)


class Unread:
    """The unread records of one handler."""

    def __init__(self, router: Router, read_keys: ReadKeys | None) -> None:
        """`read_keys` runs none of the user's code; None where keys are always read before."""
        self._router = router
        self._read_keys = read_keys
        # Where all records go; None while keys are read. Invariant: while it is set, no key waits and no
        # other consumer has anything, so all records end in the order in which they are there.
        self.inbox: Inbox | None = None
        # Its consumer takes messages in place of entries with an unread key. The driver's, set before it
        # starts.
        self.is_bare = False

    def needs_no_keys(self) -> bool:
        """Tell whether records go unread now; else keys are read before the lock is taken. Needs none."""
        router = self._router
        return self._read_keys is not None and router.width == 1 and not (router.held or router.slow.keys)

    def takes(self) -> bool:
        """Tell whether records may go unread now; begin it where they may."""
        router = self._router
        if self.inbox is None and self.needs_no_keys():
            home = router.only_home()
            drains = any(epoch.drain_limit is not None for epoch in router.epochs.values())
            if home is None or home.stuck or drains:
                return False
            self.inbox, home.log = home, RunLog(home.log)
        return self.inbox is not None

    def receive(self, epoch: Epoch, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        """Put records of one partition, ascending, behind all others."""
        inbox, router = self.inbox, self._router
        assert inbox is not None
        self.note()
        epoch.tally.receive(len(messages), sum(sizes))
        run: Any = UnreadRun(epoch, messages, sizes)
        epoch.runs.append(run)
        inbox.log.append(run)
        inbox.q.extend(messages if self.is_bare else run.entries())  # type: ignore[arg-type]
        inbox.sent += len(messages)
        router.touched.add(inbox)

    def note(self) -> None:
        """Take in what has finished."""
        inbox, entries = self.inbox, list[Any]()
        assert inbox is not None
        finished = inbox.count_finished()
        while finished:
            part: Any = inbox.log[0]
            if not isinstance(part, UnreadRun):
                entries.append(inbox.log.popleft())
                finished -= 1
                continue
            finished -= self._finish(part, finished)
            if part.first == len(part.messages):
                inbox.log.popleft()
                part.epoch.runs.popleft()
        self._router.note_entries(entries)

    def _finish(self, run: UnreadRun, most: int) -> int:
        """Count records of a run as finished, so many at most; return how many."""
        epoch, router, first = run.epoch, self._router, run.first
        run.first = min(len(run.messages), first + most)
        finished = run.first - first
        if epoch.ended:
            for _ in range(finished):
                router.ignore(epoch)
        else:
            epoch.tally.finish(finished, sum(run.sizes[first : run.first]))
        return finished

    @staticmethod
    def entry_of(inbox: Inbox, message: Message) -> Entry | None:
        """Return the entry of a message that the consumer of an inbox has shown; None where it has ended."""
        return next((entry for entry in inbox.log if entry[MESSAGE] is message), None)

    # -- keys ------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Read the keys of all that is unread; each then owns its inbox, and routing goes by them."""
        if (inbox := self.inbox) is None:
            return
        router, entries = self._router, list[Any]()
        self.note()
        for part in deque.__iter__(inbox.log):
            if not isinstance(part, UnreadRun):
                entries.append(part)
                continue
            left = part.left()
            read = list(zip(left, self.read(left), part.sizes[part.first :], repeat(part.epoch)))
            part.epoch.runs.popleft()
            part.epoch.order.extend(read)
            entries += read
        inbox.log, self.inbox = deque(entries), None
        waiting = entries[len(entries) - len(inbox.take_back()) :]
        router.note(inbox)
        for entry, owner in router.running_keys(inbox):
            entry[EPOCH].owners[entry[KEY]] = owner
        if router.width == 1:
            router.settle(inbox, waiting)
        else:  # all consumers get their part at once
            for entry in waiting:
                router.place(entry)

    def with_keys(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries, each with its key. Needs no lock."""
        return [
            entry if entry[KEY] is key else (entry[MESSAGE], key, entry[SIZE], entry[EPOCH])
            for entry, key in zip(entries, self.keys_of(entries), strict=True)
        ]

    def keyed(self, entry: Entry) -> Entry:
        """Return an entry with its key. Needs no lock."""
        return entry if entry[KEY] is not UNREAD else self.with_keys((entry,))[0]

    def keys_of(self, entries: Sequence[Entry]) -> list[Hashable]:
        """Return the entries' keys, all read at once. Needs no lock."""
        keys = list(map(_key_of, entries))
        if UNREAD in keys:
            read = iter(self.read([entry[MESSAGE] for entry in entries if entry[KEY] is UNREAD]))
            keys = [next(read) if key is UNREAD else key for key in keys]
        return keys

    def read(self, messages: Sequence[Message]) -> Sequence[Hashable]:
        """Return the keys of messages, none of which was read before. Needs no lock."""
        assert self._read_keys is not None
        return self._read_keys(messages)
