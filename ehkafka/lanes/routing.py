"""Routing: which inbox each record goes to, and back.

Pure; the caller has the lock.

**Invariant: all unfinished records of a key are in one inbox, in order.** `owners[key]` names the inbox and
the number of the key's last record there. Whether that record is unfinished is read from the inbox, so no
consumer reports anything and the owner of a key that is done costs nothing until it is purged.

An inbox without a consumer keeps what waits: `held.Held` for one key, `Pile` for all that a partition
or a handler may not start yet. The router puts a key's next record there like anywhere else.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes.decision import Attempt
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, FOREVER, KEY, MESSAGE, SIZE, Inbox
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.slow_start import SlowStart
from ehkafka.lanes.tally import Tally
from ehkafka.lanes.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from ehkafka.lanes.decision import Attempts
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Owner
    from ehkafka.lanes.unread import ReadKeys
    from ehkafka.records import TopicPartition

    # A key, and the identity of its map of owners.
    Name = tuple[int, Hashable]

# Owners that may be left over in addition to four for each unfinished record.
OWNERS_MIN: Final = 1_000
_KEY_OF: Final = itemgetter(KEY)
_EPOCH_OF: Final = itemgetter(EPOCH)
_SIZE_OF: Final = itemgetter(SIZE)


class Router:
    """The inboxes of one handler, and its keys' owners."""

    def __init__(
        self,
        inboxes: int,
        *,
        is_shared: bool,
        make_queue: Callable[[], deque[Any]] = deque,
        make_inbox: type[Inbox] = Inbox,
        read_keys: ReadKeys | None = None,
    ) -> None:
        """`is_shared`: a key is one over all partitions of the handler. `make_inbox`: its consumers' kind.

        `read_keys`: see `unread`.
        """
        self.make_queue = make_queue
        self.make_inbox = make_inbox
        self.inboxes = [make_inbox(number, make_queue) for number in range(inboxes)]
        # Inboxes of workers that are to go: they get nothing more, and leave once their call has ended.
        self.leaving: list[Inbox] = []
        # Those that take new keys, and how many of them there may be at most.
        self.open = list(self.inboxes)
        self.width = inboxes
        # Those whose consumer has nothing. Consumers append themselves; a hint, corrected at each look.
        self.idle: deque[Inbox] = deque()
        # Inboxes with new records, or with a consumer to free: the pool wakes these.
        self.touched: set[Inbox] = set()
        # Consumers' inboxes whose records may be unfinished, as of the last look. All others are empty, and
        # no look needs them. See `moving`.
        self._moving: set[Inbox] = set()
        self.shared: dict[Hashable, Owner] | None = {} if is_shared else None
        self.epochs: dict[TopicPartition, Epoch] = {}
        self.tally = Tally()
        # Results of ended epochs that were ignored, failures apart: for events, by epoch.
        self.ignored: deque[Epoch] = deque()
        self.piles = Piles(self)
        # Of records that are to be called again, by the message's identity.
        self.attempts: dict[int, Attempts] = {}
        # Messages, by identity, whose calls have outlived their epoch and keep no key any more: a command.
        self.freed: set[int] = set()
        # How many records a batch worker waits for; 0 where consumers take one record at a time.
        self.deep = 0
        # Batches: the inbox that is being filled, and the number of the last record that is to fill it.
        self._filling: Inbox | None = None
        self._filled_at = 0
        # The keys that wait, see `waiting`.
        self.held: dict[Held, None] = {}
        self.slow = SlowStart(self)
        self.unread = Unread(self, read_keys)
        self._turn = 0

    # -- routing ---------------------------------------------------------------------------------------

    def route(self, epoch: Epoch, entries: Sequence[Entry]) -> None:
        """Put records of one partition, ascending, behind the others of their keys."""
        epoch.add(entries, sum(map(_SIZE_OF, entries)))
        if (home := self.only_home()) is not None and epoch.drain_limit is None:
            waits = self.held or self.slow.keys
            self.settle(home, self.put_behind(entries) if waits else entries)
        elif self.piles.is_open and epoch.drain_limit is None:
            self._append(epoch, entries)
        else:
            for entry in entries:
                self.place(entry)

    def settle(self, inbox: Inbox, entries: Sequence[Entry]) -> None:
        """Append records to an inbox, which then owns their keys. None of these starts slowly.

        Each key gets the last record's number, so it counts as live slightly longer. An object for each
        record would be one more that Python's collector looks through.
        """
        inbox.extend(entries)
        for epoch, run in groupby(entries, _EPOCH_OF):
            epoch.owners.update(dict.fromkeys(map(_KEY_OF, run), (inbox, inbox.sent)))
        self.touched.add(inbox)

    def _append(self, epoch: Epoch, entries: Sequence[Entry]) -> None:
        """Put records behind the others of their keys: `place` and `put`, written out."""
        choose = self._fill if self.deep else self.choose
        owners, get, touch = epoch.owners, epoch.owners.get, self.touched.add
        for entry in entries:
            key = entry[KEY]
            owner = get(key)
            if owner is None:
                inbox = choose()
            else:
                inbox = owner[0]
                ahead = owner[1] - inbox.sent + len(inbox.q)  # as in `Inbox.is_live`
                if ahead <= 0 and (ahead <= -inbox.slack or inbox.head is None):
                    inbox.ended = max(inbox.ended, owner[1])
                    inbox = choose()
            inbox.sent = number = inbox.sent + 1
            owners[key] = (inbox, number)
            inbox.log.append(entry)
            inbox.q.append(entry)
            touch(inbox)

    def only_home(self) -> Inbox | None:
        """Return the one inbox that takes new keys, if no other consumer has any, nor a pile.

        All keys are its own, except those that wait.
        """
        home = self.open[0] if self.open and self.width == 1 and self.piles.is_open else None
        return None if any(inbox is not home for inbox in self.moving()) else home

    def held_of(self, entry: Entry) -> Held | None:
        """Return where the records of a record's key wait, or those that are to start slowly."""
        owner = entry[EPOCH].owners.get(entry[KEY])
        return owner[0] if owner is not None and isinstance(owner[0], Held) else None

    def put_behind(self, entries: Iterable[Entry]) -> list[Entry]:
        """Put the records of keys that wait or start slowly behind the others of these; return the rest."""
        rest: list[Entry] = []
        for entry in entries:
            if (held := self.held_of(entry)) is not None:
                self.put(held, entry)
            else:
                rest.append(entry)
        return rest

    def place(self, entry: Entry) -> None:
        """Put a record that is counted already where it belongs: into its key's inbox, a pile, or back."""
        epoch = entry[EPOCH]
        if not epoch.may_start(entry):
            self.give_back(entry)
            return
        owner = self.owner_of(epoch, entry[KEY])
        pile = self.piles.unopened.get(epoch) or self.piles.stopped
        if owner is not None and (pile is None or owner[0].slack == FOREVER):
            self.put(owner[0], entry)
        elif pile is None:
            self.put(self.choose(), entry)
        else:
            if owner is not None:
                # What waits of the key comes along, so that its records are in one place.
                pulled, running = self.pull(owner, name := self.name_of(entry))
                if running is not None:
                    pile.behind[name] = (epoch.owners, running)
                self.put_all(pile, pulled)
            self.put(pile, entry)

    def place_all(self, entries: Sequence[Entry]) -> None:
        """Do the same for records of one key, in order."""
        if entries and self.piles.is_open and all(entry[EPOCH].may_start(entry) for entry in entries):
            owner = self.owner_of(entries[0][EPOCH], entries[0][KEY])
            self.put_all(self.choose() if owner is None else owner[0], entries)
            return
        for entry in entries:
            self.place(entry)

    def put(self, inbox: Inbox, entry: Entry) -> None:
        """Append a record to an inbox, which then owns its key, unless that starts slowly."""
        if inbox is self.unread.inbox:
            self.unread.go_again(inbox, (entry,))
            return
        number = inbox.append(entry)
        if not (self.slow.keys and self.slow.has_moved(inbox, entry, number)):
            entry[EPOCH].owners[entry[KEY]] = (inbox, number)
        self.touched.add(inbox)

    def put_all(self, inbox: Inbox, entries: Sequence[Entry]) -> None:
        """Append records to an inbox, which then owns their keys, except those in slow start."""
        if inbox is self.unread.inbox:
            self.unread.go_again(inbox, entries)
            return
        if self.slow.keys:
            for entry in entries:
                self.put(inbox, entry)
            return
        numbers = iter(inbox.extend(entries))
        for epoch, run in groupby(entries, _EPOCH_OF):
            # `zip` asks for a key first: it takes no number more than there are keys.
            epoch.owners.update(zip(map(_KEY_OF, run), zip(repeat(inbox), numbers), strict=False))
        self.touched.add(inbox)

    def owner_of(self, epoch: Epoch, key: Hashable) -> Owner | None:
        """Return where unfinished records of a key are, if it has any."""
        owner = epoch.owners.get(key)
        return owner if owner is not None and owner[0].is_live(owner[1]) else None

    def choose(self) -> Inbox:
        """Return an inbox for a key that has none: an idle one, else the shorter of two."""
        if (home := self.unread.inbox) is not None:
            return home
        if self.deep:
            return self._fill()
        idle = self.idle
        while idle:
            inbox = idle.pop()
            inbox.listed = False
            takes_keys = self.width >= len(self.inboxes) or inbox in self.open
            if inbox.is_empty() and not inbox.frozen and not inbox.stuck and takes_keys:
                return inbox
        places = self.open or self.inboxes
        self._turn = turn = (self._turn + 1) % len(places)
        inbox, other = places[turn], places[turn - 1]
        if len(other.q) < len(inbox.q):
            inbox = other
        return inbox

    def _fill(self) -> Inbox:
        """Batches: continue with the inbox that is being filled; then with an idle one, or the shortest.

        So records are in few inboxes until a batch is full, and what is there after that feeds other workers.
        """
        inbox = self._filling
        if (
            inbox is None
            or (inbox.sent >= self._filled_at and len(inbox.q) >= self.deep)
            or (inbox.stuck and self.open)
            or inbox.leaves
        ):
            places = self.open or self.inboxes
            inbox = self._filling = min(places, key=lambda place: (place.head is not None, len(place.q)))
            self._filled_at = inbox.sent + self.deep
        return inbox

    # -- taking back -----------------------------------------------------------------------------------

    def pull(self, owner: Owner, name: Name) -> tuple[list[Entry], Owner | None]:
        """Take what waits of a key out of its owner, in order; return it, and what may still run of it."""
        inbox, number = owner
        pulled = self._pull(inbox, {name}) if inbox.has_waiting(number) else []
        if inbox.slack == FOREVER:
            return pulled, inbox.owner_behind(name)
        return pulled, (inbox, number - len(pulled))

    def _pull(self, inbox: Inbox, names: Collection[Name]) -> list[Entry]:
        taken, keys = inbox.take_back(), {key for _, key in names}
        mine = [entry for entry in taken if entry[KEY] in keys and self.name_of(entry) in names]
        gone = set(map(id, mine))
        others = [entry for entry in taken if id(entry) not in gone]
        # Their numbers are lower now, so their keys count as live slightly longer.
        numbers, slow = inbox.extend(others), {key for _, key in self.slow.keys}
        for number, entry in zip(numbers, others, strict=True) if slow else ():
            if entry[KEY] in slow:
                self.slow.has_moved(inbox, entry, number)
        self.touched.add(inbox)
        return mine

    def pull_several(self, inbox: Inbox, entries: Iterable[Entry]) -> dict[Name, list[Entry]]:
        """Take what waits of these records' keys out of the inbox that owned them until now, in one pass."""
        pulled: dict[Name, list[Entry]] = {}
        for entry in entries:
            owners, key = entry[EPOCH].owners, entry[KEY]
            if (tried := self.slow.keys.get((id(owners), key))) is not None:
                owner = tried.behind
            elif (owner := owners.get(key)) is not None and owner[0] is inbox:
                del owners[key]
            if owner is not None and owner[0] is inbox and inbox.has_waiting(owner[1]):
                pulled[id(owners), key] = []
        if pulled:
            for entry in self._pull(inbox, pulled):
                pulled[self.name_of(entry)].append(entry)
        return pulled

    def unload(self, inbox: Inbox, targets: list[Inbox], *, half: bool = False) -> int:
        """Move what waits in an inbox behind other keys to these; return how many records moved.

        With `half` every second key stays. The keys that run stay in any case.
        """
        taken = inbox.take_back()
        self.note(inbox)
        stay = {self.name_of(entry) for entry in inbox.running() if self.keeps_key(entry)}
        to: dict[tuple[int, Hashable], Inbox] = dict.fromkeys(stay, inbox)
        moved, keys = 0, 0
        for entry in taken:
            name = self.name_of(entry)
            target = to.get(name)
            if target is None:
                keys += 1
                moves = not half or keys % 2 == 1
                self._turn += moves  # not the same one first for each inbox
                target = to[name] = targets[self._turn % len(targets)] if moves else inbox
            moved += target is not inbox
            self.put(target, entry)
        return moved

    def shown(self) -> list[Entry]:
        """Return what all consumers show: it runs, or is about to."""
        shown: list[Entry] = []
        for inbox in self.moving():
            head = inbox.head
            if isinstance(head, list):
                shown += head
            elif head is not None:
                entry = head if isinstance(head, tuple) else self.unread.entry_of(inbox, head)
                shown += () if entry is None else (entry,)
        return shown

    def keeps_key(self, entry: Entry) -> bool:
        """Tell whether a running record keeps its key. See `outliving`."""
        return id(entry[MESSAGE]) not in self.freed

    def running_keys(self, inbox: Inbox) -> list[tuple[Entry, Owner]]:
        """Return the running records that keep their keys in an inbox, and what their owners are by that."""
        running = enumerate(inbox.running(), inbox.noted + 1)
        return [(entry, (inbox, number)) for number, entry in running if self.keeps_key(entry)]

    @staticmethod
    def name_of(entry: Entry) -> Name:
        """Return what tells a record's key from those of all other records of the handler."""
        return id(entry[EPOCH].owners), entry[KEY]

    def give_back(self, entry: Entry) -> None:
        """Leave a record for the partition's next owner: it is in no inbox, and stops the commit position."""
        entry[EPOCH].tally.give_back(1, entry[SIZE])
        self.attempts.pop(id(entry[MESSAGE]), None)

    def without_ended(self, entries: Iterable[Entry]) -> list[Entry]:
        """Forget those of ended epochs, which no inbox has any more; return the others."""
        kept: list[Entry] = []
        for entry in entries:
            if entry[EPOCH].ended:
                self.attempts.pop(id(entry[MESSAGE]), None)
                self.freed.discard(id(entry[MESSAGE]))
            else:
                kept.append(entry)
        return kept

    # -- what has finished -----------------------------------------------------------------------------

    def moving(self) -> set[Inbox]:
        """Return the inboxes of consumers that may have something; all others are empty."""
        if self.touched:
            # No pile, and no key that waits.
            self._moving.update(inbox for inbox in self.touched if inbox.number >= 0)
        return self._moving

    def forget(self, inbox: Inbox) -> None:
        """Forget an inbox whose consumer leaves: it owns no key any more, whatever its number."""
        self.leaving.remove(inbox)
        self.touched.discard(inbox)
        self._moving.discard(inbox)
        inbox.sent = FOREVER

    def moving_now(self) -> list[Inbox]:
        """Return the same, as it was when the lock was free last. Needs no lock."""
        return list(self._moving)

    def note_all(self) -> None:
        """Take in what has finished in all inboxes. O(finished)."""
        finished: list[Entry] = []
        for inbox in self.moving():
            if inbox is self.unread.inbox:
                self.unread.note()
                continue
            # Most have one record that runs, or none: of thousands of inboxes each is asked in 0.1 µs.
            waiting = len(inbox.q)  # first what waits, second what runs
            removed = inbox.sent - inbox.noted - waiting
            is_shown = type(inbox.head) is tuple and inbox.ended <= inbox.noted
            if removed > 1 or (removed == 1 and not is_shown):
                finished += inbox.take_finished()
        self.note_entries(finished)

    def note(self, inbox: Inbox) -> None:
        """Take in what has finished in one inbox."""
        if inbox is self.unread.inbox:
            self.unread.note()
        elif finished := inbox.take_finished():
            self.note_entries(finished)

    def note_entries(self, finished: list[Entry]) -> None:
        """Count these as finished."""
        for entry in finished if self.attempts else ():
            self.attempts.pop(id(entry[MESSAGE]), None)
        if self.slow.keys:
            self.slow.note(finished)
        by_epoch: defaultdict[Epoch, list[Entry]] = defaultdict(list)
        for entry in finished:
            by_epoch[entry[EPOCH]].append(entry)
        for epoch, entries in by_epoch.items():
            if epoch.ended:
                for entry in entries:
                    self.ignore(epoch)
                    self.freed.discard(id(entry[MESSAGE]))
                continue
            epoch.note_finished(entries)
            epoch.tally.finish(len(entries), sum(map(_SIZE_OF, entries)))

    def purge(self) -> None:
        """Forget keys that have no unfinished record: what is kept follows the backlog, not the keys seen."""
        maps = [(epoch.owners, epoch.tally) for epoch in self.epochs.values()]
        for owners, tally in maps if self.shared is None else [(self.shared, self.tally)]:
            if len(owners) > OWNERS_MIN + 4 * tally.unfinished_records:
                live = {key: owner for key, owner in owners.items() if owner[0].is_live(owner[1])}
                owners.clear()
                owners.update(live)

    def ignore(self, epoch: Epoch) -> None:
        """Count the result of a record whose epoch has ended."""
        self.ignored.append(epoch)
        self.tally.stale_records += 1

    def attempt_of(self, entry: Entry) -> Attempt:
        """Return the next call of a record, with its key. Needs no lock while the record is the caller's."""
        entry = self.unread.keyed(entry)
        known = self.attempts.get(id(entry[MESSAGE]))
        return Attempt(entry) if known is None else Attempt(entry, known.failed + 1, known.asked)
