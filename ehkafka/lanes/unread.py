"""Records whose keys are not read: all of a handler's wait in one inbox, where they are in order anyway.

Pure; the caller has the lock. For quick handlers, which one consumer runs faster than several, and for
handlers with one consumer. They are kept in runs, see there. Where a record fails, the keys are read to find
the later ones of its key, and those that are received are compared with the keys that wait; all others stay
unread. All keys are read when a call takes long, a key is to be found, or something begins, drains or ends.
Reading them runs no code of the user's: handlers with an order function of their own, or who are given the
engine's messages, never get here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, SIZE
from ehkafka.lanes.runs import UNREAD, Run, RunLog

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from collections.abc import Set as AbstractSet

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.routing import Name, Router
    from ehkafka.records import Message

    ReadKeys = Callable[[Sequence[Message]], Sequence[Hashable]]

_key_of: Final = itemgetter(KEY)


class Unread:
    """The unread records of one handler."""

    def __init__(self, router: Router, read_keys: ReadKeys | None) -> None:
        """`read_keys` runs none of the user's code; None where keys are always read before."""
        self._router = router
        self._read_keys = read_keys
        # Where all records go; None while keys are read. Invariant: while it is set, no other consumer has
        # anything, so no owner is live but those in this very inbox and keys that wait.
        self.inbox: Inbox | None = None
        # What it has, with runs.
        self._log = RunLog()
        # Its consumer takes messages in place of entries with an unread key. The driver's, set before it
        # starts.
        self.is_bare = False

    def takes(self) -> bool:
        """Tell whether records may go unread now; begin it where they may."""
        return self.inbox is not None or self._begin()

    def needs_no_keys(self) -> bool:
        """Tell whether records go unread now; else keys are read before the lock is taken. Needs none."""
        router = self._router
        return self._read_keys is not None and router.width == 1 and not (router.held or router.slow.keys)

    def _begin(self) -> bool:
        router = self._router
        if self._read_keys is None or router.width > 1 or not router.open or router.piles.all():
            return False
        if any(epoch.drain_limit is not None for epoch in router.epochs.values()):
            return False
        home = router.open[0]
        if home.stuck or any(not inbox.is_empty() for inbox in router.moving() if inbox is not home):
            return False
        self.inbox, self._log = home, RunLog(home.log)
        home.log = cast("deque[Entry]", self._log)  # it reads like one
        return True

    def receive(
        self,
        epoch: Epoch,
        messages: Sequence[Message],
        keys: Sequence[Hashable] | None,
        sizes: Sequence[int],
    ) -> None:
        """Put records of one partition, ascending, behind all others. `keys` may have been read before."""
        router = self._router
        self.note()
        for tally in (epoch.tally, router.tally):
            tally.receive(len(messages), sum(sizes))
        epoch.runs.append(run := Run(epoch, messages, sizes))
        if router.held or router.slow.keys:
            keys = self.read(messages) if keys is None else keys
            known = {key: router.owner_of(epoch, key) for key in epoch.owners.keys() & keys}
            waits = {key: owner[0] for key, owner in known.items() if owner and owner[0] is not self.inbox}
            for entry in self._take_out(run, waits.keys(), keys):
                router.put(waits[entry[KEY]], entry)
        self._put(run)

    def _put(self, run: Run) -> None:
        """Put a run behind all others."""
        inbox = self.inbox
        assert inbox is not None
        if run:
            self._log.append(run)
            items: Any = run.left() if self.is_bare else run.entries()
            inbox.q.extend(items)
            inbox.sent += len(run)
            self._router.touched.add(inbox)

    # -- what has finished, and what runs --------------------------------------------------------------

    def note(self) -> None:
        """Take in what has finished."""
        inbox, router = self.inbox, self._router
        assert inbox is not None
        entries, pieces = self._log.take(inbox.count_finished())
        if entries:
            router.note_entries(entries)
        for run, first, end in pieces:
            epoch = run.epoch
            if epoch.ended:
                for _ in range(first, end):
                    router.ignore(epoch)
                continue
            if epoch.order:  # one that waits is perhaps below, and keeps the commit position
                epoch.ended_lately.extend(run.messages[first:end])
            for tally in (epoch.tally, router.tally):
                tally.finish(end - first, sum(run.sizes[first:end]))

    @staticmethod
    def entry_of(inbox: Inbox, message: Message) -> Entry | None:
        """Return the entry of a message that the consumer of an inbox has shown; None where it has ended."""
        return next((entry for entry in inbox.log if entry[MESSAGE] is message), None)

    def read_running(self, inbox: Inbox) -> None:
        """Read the keys of what runs in an inbox: some of it has failed. After `note`."""
        if inbox is self.inbox:
            running = self._read(inbox.running())
            self._log.take(len(running))
            self._log.extendleft(reversed(running))

    def pull(self, pulled: dict[Name, list[Entry]]) -> None:
        """Take what waits of these keys out of the inbox. Its consumer waits for that."""
        inbox, router, log = self.inbox, self._router, self._log
        assert inbox is not None
        # Of what runs, each is an entry of its own.
        parts = list(islice(log.parts(), len(log) - len(inbox.q), None))
        inbox.sent -= len(inbox.empty_queue())
        for _ in parts:
            log.pop()
        for part in parts:
            if isinstance(part, Run):
                wanted = {key for owners, key in pulled if owners == id(part.epoch.owners)}
                for entry in self._take_out(part, wanted):
                    pulled[router.name_of(entry)].append(entry)
                self._put(part)
            elif (its := pulled.get(router.name_of(part))) is not None:
                its.append(part)
            else:
                router.put(inbox, part)

    def _take_out(
        self, run: Run, wanted: AbstractSet[Hashable], keys: Sequence[Hashable] | None = None
    ) -> list[Entry]:
        """Take the records of these keys out of a run: each may finish for itself. Return them."""
        left, sizes, epoch = run.left(), run.sizes[run.first :], run.epoch
        keys = self.read(left) if wanted and keys is None else keys
        if not wanted or keys is None or wanted.isdisjoint(keys):
            return []
        found = [(left[place], key, sizes[place], epoch) for place, key in enumerate(keys) if key in wanted]
        others = [place for place, key in enumerate(keys) if key not in wanted]
        run.messages, run.sizes = [left[place] for place in others], [sizes[place] for place in others]
        run.first = 0
        if not run:
            epoch.runs.remove(run)
        epoch.put_into_order(found)
        return found

    # -- keys ------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Read the keys of all that is unread; each then owns its inbox, and routing goes by them."""
        if (inbox := self.inbox) is None:
            return
        router = self._router
        if router.width > 1:
            router.slow.end_all()  # to place what has gone of such a key would put it behind what has not
        self.note()
        entries = self._read(list(inbox.log))
        inbox.log = deque(entries)
        self.inbox, self._log = None, RunLog()
        for epoch in {entry[EPOCH] for entry in entries}:
            epoch.runs.clear()
        waiting = len(inbox.take_back())
        router.note(inbox)
        for number, entry in enumerate(inbox.running(), inbox.noted + 1):
            owner = router.owner_of(entry[EPOCH], entry[KEY])
            # What waits of the key elsewhere knows what runs of it.
            if router.keeps_key(entry) and (owner is None or owner[0] is inbox):
                entry[EPOCH].owners[entry[KEY]] = inbox, number
        if router.width == 1:
            router.put_all(inbox, entries[len(entries) - waiting :])
        else:  # all consumers get their part at once
            for entry in entries[len(entries) - waiting :]:
                router.place(entry)

    def _read(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries with their keys; the epochs know those that are of no run any more."""
        read = self.with_keys(entries)
        of: defaultdict[Epoch, list[Entry]] = defaultdict(list)
        for before, after in zip(entries, read, strict=True):
            if before is not after:
                of[after[EPOCH]].append(after)
        for epoch, its in of.items():
            epoch.put_into_order(its)
        return read

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
