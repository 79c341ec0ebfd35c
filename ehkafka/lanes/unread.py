"""Records whose keys are not read: all of a handler's wait in one inbox, in the order received.

Pure; the caller has the lock. It serves quick handlers, which one consumer runs faster than several, and
handlers with one consumer. Records are kept in runs: a run costs one list for any number of records, and an
entry is made only on demand. A call that fails has only its own key read, which waits; later records of that
key stay where they are. While any key waits, records are inspected before the consumer removes them: those of
a key that waits go behind the others of that key. All keys are read when a call takes long, a batch fails, a
command looks for a key, or an assignment begins, drains or ends. Reading keys runs no user code: handlers
with an `order_by` of their own, or with the engine's messages, never use this module.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, FOREVER, KEY, MESSAGE, SIZE

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

    # How many records one inspection covers, and how many it reads where the first one's key waits.
    inspected_records = 1_000
    read_records = 32

    def __init__(self, router: Router, read_keys: ReadKeys | None) -> None:
        """`read_keys` runs none of the user's code; None where keys are always read before."""
        self._router = router
        self._read_keys = read_keys
        # Where all records go; None while keys are read. Invariant: while it is set, no other consumer has
        # anything, and of each partition what is unread is newer than all else that is unfinished.
        self.inbox: Inbox | None = None
        # While a key waits or starts slowly: the first record there that is not inspected; None for none.
        # The consumer reads it without the lock, and asks for an inspection before it removes that record.
        self.ahead: object = None
        # Records of keys that wait no more. The next inspection puts them in front of all others there.
        self.again: list[Entry] = []
        # Its consumer takes messages in place of entries with an unread key. The driver's, set before it
        # starts.
        self.is_bare = False

    def needs_no_keys(self) -> bool:
        """Tell whether records go unread now; else keys are read before the lock is taken. Needs none."""
        router = self._router
        if self._read_keys is None or router.width > 1:
            return False
        return self.inbox is not None or not (router.held or router.slow.keys)

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
        items: list[Any] = list(messages if self.is_bare else run.entries())
        if not (router.held or router.slow.keys or self.again):
            self.ahead = None
        elif self.ahead is None:
            self.ahead = items[0]
        inbox.q.extend(items)
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
        self._append_again()

    def _finish(self, run: UnreadRun, most: int) -> int:
        """Count records of a run as finished, so many at most; return how many."""
        epoch, router, first = run.epoch, self._router, run.first
        run.first = min(len(run.messages), first + most)
        finished = run.first - first
        if epoch.ended:
            for _ in range(finished):
                router.ignore(epoch)
        else:
            epoch.note_unread(run.messages[first : run.first])
            epoch.tally.finish(finished, sum(run.sizes[first : run.first]))
        return finished

    @staticmethod
    def entry_of(inbox: Inbox, message: Message) -> Entry | None:
        """Return the entry of a message that the consumer of an inbox has shown; None where it has ended."""
        return next((entry for entry in inbox.log if entry[MESSAGE] is message), None)

    # -- keys that wait --------------------------------------------------------------------------------

    def fail(self, inbox: Inbox, entry: Entry) -> None:
        """Read the key of a record that has failed, whose consumer waits. The caller lets that key wait.

        All keys are read where the consumer has a batch, or has read records of that key as well.
        """
        if inbox is not self.inbox or isinstance(inbox.head, list):
            self.end()
            return
        self.note()
        inbox.log.extendleft(self._take_first(inbox, 1))
        self.ahead = inbox.q[0] if inbox.q else None
        owners, name_of = entry[EPOCH].owners, self._router.name_of
        name = _, key = name_of(inbox.log[0])
        read: Iterator[Any] = islice(deque.__iter__(inbox.log), 1, None)
        if any(name_of(one) == name for one in read if not isinstance(one, UnreadRun)):
            self.end()
        elif (owner := owners.get(key)) is not None and owner[0] is inbox:
            del owners[key]  # its number may be that of a later record

    def inspect(self, inbox: Inbox) -> None:
        """Let the first records run, as far as their keys do not wait. The consumer waits, and has none.

        Records that go again are put in front of the others first. If the key of the first record waits, some
        records are read, and those of keys that wait go behind the others of their keys.
        """
        if inbox is not self.inbox:
            return
        self.note()
        self._router.slow.go_on()
        again, self.again = self.again, []
        self._put_first(inbox, again)
        while not (records := self._first_that_may_run(inbox)) and inbox.q:
            self._pass_on(inbox)
        self.ahead = inbox.q[records] if records < len(inbox.q) else None

    def _put_first(self, inbox: Inbox, entries: Sequence[Entry]) -> None:
        """Put read records in front of all others; the consumer waits."""
        inbox.log.extendleft(reversed(entries))
        inbox.q.extendleft(reversed(entries))
        inbox.noted -= len(entries)
        inbox.ended = min(inbox.ended, inbox.noted)
        for number, entry in enumerate(entries, inbox.noted + 1):
            self._router.slow.has_moved(inbox, entry, number)

    def go_again(self, inbox: Inbox, entries: Sequence[Entry]) -> None:
        """Let records run before all unread ones, from the next inspection on; those of one key at once."""
        self.again += entries
        for entry in entries:
            self._router.slow.has_moved(inbox, entry, FOREVER)  # until its number is known
        self._router.touched.add(inbox)
        self._append_again()

    def _append_again(self) -> None:
        """Let records go again without an inspection where no other record waits."""
        inbox, router = self.inbox, self._router
        if self.again and inbox is not None and not inbox.q:
            again, self.again = self.again, []
            for entry in again:
                router.slow.has_moved(inbox, entry, inbox.append(entry))
            router.touched.add(inbox)

    def _first_that_may_run(self, inbox: Inbox) -> int:
        """Return how many of the first records may run, as far as one inspection goes."""
        looked = 0
        for part in deque[Any].__iter__(inbox.log):
            if not isinstance(part, UnreadRun):
                looked += 1  # it has waited, or was read below
                continue
            messages, owners = part.left()[: self.inspected_records], part.epoch.owners
            keys = self.read(messages)
            waits = {key for key in owners.keys() & keys if isinstance(owners[key][0], Held)}
            looked += next(n for n, key in enumerate(keys) if key in waits) if waits else len(keys)
            if waits or len(keys) == self.inspected_records or looked >= self.inspected_records:
                break
        return looked

    def _pass_on(self, inbox: Inbox) -> None:
        """Read some of the first records, of which several may have keys that wait; put back the others."""
        entries = self._take_first(inbox, self.read_records)
        for _ in entries:
            inbox.q.popleft()
        inbox.noted += len(entries)
        self._put_first(inbox, self._router.put_behind(entries))

    def _take_first(self, inbox: Inbox, most: int) -> list[Entry]:
        """Take the first records, if unread, out of the log, so many at most; return them with their keys."""
        run: Any = inbox.log[0] if inbox.log else None
        if not isinstance(run, UnreadRun):
            return []
        left, sizes, epoch = run.left()[:most], run.sizes[run.first : run.first + most], run.epoch
        entries = list(zip(left, self.read(left), sizes, repeat(epoch)))
        run.first += len(entries)
        if run.first == len(run.messages):
            inbox.log.popleft()
            epoch.runs.popleft()
        epoch.order.extend(entries)
        return entries

    # -- keys ------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Read the keys of all that is unread; each then owns its inbox, and routing goes by them."""
        if (inbox := self.inbox) is None:
            return
        router, entries = self._router, list[Any]()
        self.note()
        read = {id(part) for part in deque[Any].__iter__(inbox.log) if not isinstance(part, UnreadRun)}
        while inbox.log:
            entries += self._take_first(inbox, FOREVER) or (inbox.log.popleft(),)
        inbox.log, self.inbox = deque(entries), None
        waiting = entries[len(entries) - len(inbox.take_back()) :]
        self.ahead, again, self.again = None, self.again, []
        router.note(inbox)
        for entry, owner in router.running_keys(inbox):
            if router.held_of(entry) is None:  # else that knows what runs
                entry[EPOCH].owners[entry[KEY]] = owner
        # What was read is older, and has gone already where its key starts slowly.
        router.put_all(inbox, [*again, *(entry for entry in waiting if id(entry) in read)])
        waiting = router.put_behind(entry for entry in waiting if id(entry) not in read)
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
