"""Records whose keys are not read: all of a handler's wait in one inbox, where they are in order anyway.

Pure; the caller has the lock. For quick handlers, which one consumer runs faster than several, and for
handlers with one consumer. They are kept in runs, see there. Where a record fails, the keys are read to find
the later ones of its key, and those that are received are compared with the keys that wait; all others stay
unread. All keys are read when a call takes long, a key is to be found, or something begins, drains or ends.
Reading them runs no code of the user's: handlers with an order function of their own, or who are given the
engine's messages, never get here.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, cast

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, SIZE
from ehkafka.lanes.runs import UNREAD, Run, RunLog

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

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
        self._log = RunLog(())
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
        records, size = len(messages), sum(sizes)
        epoch.tally.receive(records, size)
        router.tally.receive(records, size)
        if router.held or router.slow.keys:
            messages, sizes = self._without_waiting(epoch, messages, keys, sizes)
            if not messages:
                return
        epoch.runs.append(run := Run(epoch, messages, sizes))
        self._put(run)

    def _without_waiting(
        self,
        epoch: Epoch,
        messages: Sequence[Message],
        keys: Sequence[Hashable] | None,
        sizes: Sequence[int],
    ) -> tuple[Sequence[Message], Sequence[int]]:
        """Put records behind those of their keys that wait; return the others."""
        assert self._read_keys is not None
        router, keys = self._router, self._read_keys(messages) if keys is None else keys
        if epoch.owners.keys().isdisjoint(keys):
            return messages, sizes
        others: list[int] = []
        for place, key in enumerate(keys):
            owner = router.owner_of(epoch, key)
            if owner is None or owner[0] is self.inbox:
                others.append(place)
            else:
                entry = messages[place], key, sizes[place], epoch
                epoch.order.append(entry)
                router.put(owner[0], entry)
        return [messages[place] for place in others], [sizes[place] for place in others]

    # -- what has finished, and what runs --------------------------------------------------------------

    def note(self) -> None:
        """Take in what has finished."""
        inbox, router = self.inbox, self._router
        assert inbox is not None
        entries, pieces = self._log.take(inbox.count_finished())
        if entries:
            router.note_entries(entries)
        for run, first, end in pieces:
            epoch, records = run.epoch, end - first
            if epoch.ended:
                for _ in range(records):
                    router.ignore(epoch)
                continue
            if epoch.order:  # one that waits is perhaps below, and keeps the commit position
                epoch.ended_lately.extend(run.messages[first:end])
            size = sum(run.sizes[first:end])
            epoch.tally.finish(records, size)
            router.tally.finish(records, size)

    @staticmethod
    def entry_of(inbox: Inbox, message: Message) -> Entry | None:
        """Return the entry of a message that the consumer of an inbox has shown; None where it has ended."""
        return next((entry for entry in inbox.log if entry[MESSAGE] is message), None)

    def read_running(self, inbox: Inbox) -> None:
        """Read the keys of what runs in an inbox: some of it has failed. After `note`."""
        if inbox is self.inbox:
            running = inbox.running()
            read = self.with_keys(running)
            self._log.take(len(running))
            self._log.extendleft(reversed(read))
            self._put_into_order(
                [after for before, after in zip(running, read, strict=True) if before[KEY] is UNREAD]
            )

    def pull_several(self, entries: Iterable[Entry]) -> dict[Name, list[Entry]]:
        """Take what waits of the keys of these records out of the inbox. Its consumer waits for that."""
        inbox, router = self.inbox, self._router
        assert inbox is not None
        pulled: dict[Name, list[Entry]] = {}
        for entry in entries:
            name, owner = router.name_of(entry), router.owner_of(entry[EPOCH], entry[KEY])
            if name in router.slow.keys:
                pulled[name] = []
            elif owner is None or owner[0] is inbox:
                pulled[name] = []
                entry[EPOCH].owners.pop(entry[KEY], None)
        running = len(self._log) - len(inbox.q)
        stay: list[Any] = []
        for part in islice(self._log.parts, running, None):  # of what runs, each is an entry of its own
            if isinstance(part, Run):
                self._pull_from(part, pulled)
                stay += [part] if part else []
            else:
                pulled.get(router.name_of(part), stay).append(part)
        if any(pulled.values()):
            inbox.sent -= len(inbox.empty_queue())
            self._log.parts = deque(islice(self._log.parts, running))
            for part in stay:
                self._put(part)
        return pulled

    def _put(self, part: Entry | Run) -> None:
        """Put a run, or a record whose key is known, behind all others."""
        inbox, router = self.inbox, self._router
        assert inbox is not None
        if isinstance(part, Run):
            self._log.parts.append(part)
            items: Any = part.left() if self.is_bare else part.entries()
            inbox.q.extend(items)
            inbox.sent += len(part)
            router.touched.add(inbox)
        else:
            router.put(inbox, part)

    def _pull_from(self, run: Run, pulled: dict[Name, list[Entry]]) -> None:
        assert self._read_keys is not None
        epoch = run.epoch
        wanted = {key for owners, key in pulled if owners == id(epoch.owners)}
        left = run.left()
        if not wanted or wanted.isdisjoint(keys := self._read_keys(left)):
            return
        sizes = run.sizes[run.first :]
        found = [(left[place], key, sizes[place], epoch) for place, key in enumerate(keys) if key in wanted]
        for entry in found:
            pulled[self._router.name_of(entry)].append(entry)
        self._put_into_order(found)
        others = [place for place, key in enumerate(keys) if key not in wanted]
        run.messages, run.sizes = [left[place] for place in others], [sizes[place] for place in others]
        run.first = 0
        if not run:
            epoch.runs.remove(run)

    # -- the end ---------------------------------------------------------------------------------------

    def end(self) -> None:
        """Read the keys of all that is unread; each then owns its inbox, and routing goes by them."""
        if (inbox := self.inbox) is None:
            return
        router = self._router
        if router.width > 1:
            router.slow.end_all()  # to place what has gone of such a key would put it behind what has not
        self.note()
        unread = list(self._log)
        entries = self.with_keys(unread)
        inbox.log = deque(entries)
        self.inbox, self._log = None, RunLog(())
        for epoch in {entry[EPOCH] for entry in unread}:
            epoch.runs.clear()
        self._put_into_order(
            [after for before, after in zip(unread, entries, strict=True) if before[KEY] is UNREAD]
        )
        waiting = len(inbox.take_back())
        router.note(inbox)
        for place, entry in enumerate(inbox.running()):
            owner = router.owner_of(entry[EPOCH], entry[KEY])
            # What waits of the key elsewhere knows what runs of it.
            if router.keeps_key(entry) and (owner is None or owner[0] is inbox):
                entry[EPOCH].owners[entry[KEY]] = (inbox, inbox.noted + 1 + place)
        if router.width == 1:
            router.put_all(inbox, entries[len(entries) - waiting :])
        else:  # all consumers get their part at once
            for entry in entries[len(entries) - waiting :]:
                router.place(entry)

    def with_keys(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries, each with its key. Needs no lock."""
        keys = self.keys_of(entries)
        return [
            entry if entry[KEY] is key else (entry[MESSAGE], key, entry[SIZE], entry[EPOCH])
            for entry, key in zip(entries, keys, strict=True)
        ]

    def keys_of(self, entries: Sequence[Entry]) -> list[Hashable]:
        """Return the entries' keys, all read at once. Needs no lock."""
        keys = list(map(_key_of, entries))
        if self._read_keys is not None and UNREAD in keys:
            places = [place for place, key in enumerate(keys) if key is UNREAD]
            read = self._read_keys([entries[place][MESSAGE] for place in places])
            for place, key in zip(places, read, strict=True):
                keys[place] = key
        return keys

    def read(self, messages: Sequence[Message]) -> Sequence[Hashable]:
        """Return the keys of messages that are in runs. Needs no lock."""
        return () if self._read_keys is None or not messages else self._read_keys(messages)

    def keyed(self, entry: Entry) -> Entry:
        """Return an entry with its key. Needs no lock."""
        if entry[KEY] is not UNREAD:
            return entry
        assert self._read_keys is not None
        return entry[MESSAGE], self._read_keys((entry[MESSAGE],))[0], entry[SIZE], entry[EPOCH]

    @staticmethod
    def _put_into_order(entries: Sequence[Entry]) -> None:
        """Let the epochs know records that are of no run any more."""
        of: dict[Epoch, list[Entry]] = {}
        for entry in entries:
            of.setdefault(entry[EPOCH], []).append(entry)
        for epoch, its in of.items():
            epoch.put_into_order(its)
