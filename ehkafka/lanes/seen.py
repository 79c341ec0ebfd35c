"""What the inboxes of one handler have at one moment: for pictures of partitions, and for commands on keys.

Pure. An `Inspection` is made with the lock, after all that finished was noted, and asked with the lock.
What it returns are values: keys are counted and put into words without the lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.piles import Pile
from ehkafka.lanes.runs import UNREAD
from ehkafka.lanes.waiting import PAUSED

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox, Owner
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.lanes.unread import Unread

STOPPED: Final = HoldHead("its handler is stopped")


class RecordSeen(NamedTuple):
    """An unfinished record.

    `status` is `queued`, `running`, `deferred`, `waiting` (for its next attempt), `sending` (its dead letter
    is on its way), `held`, `paused` or `behind` (a call of an ended epoch).
    """

    entry: Entry
    status: str
    # Calls that failed, and what the last one of them raised.
    attempts: int
    last_error: str
    # What it waits for, where it waits.
    decision: Decision | None = None
    # The call of an ended epoch that keeps its key, whatever else it waits for.
    call: Entry | None = None


class EpochSeen(NamedTuple):
    """One partition's part."""

    watermark: int | None
    # With the handler, or waiting for an answer: of the backlog.
    in_flight_records: int
    # Keys whose first record waits, and how many of them no time lets go.
    blocked_keys: int
    held_keys: int
    oldest: RecordSeen | None
    keys: Keys


class Keys:
    """The keys with unfinished records of one partition, counted when asked. Needs no lock."""

    __slots__ = ("_counted", "_entries", "_finished", "_limit", "_messages", "_stays", "_total", "_unread")

    def __init__(self, epoch: Epoch, limit: int | None, stays: set[int], unread: Unread) -> None:
        """While the partition drains, what is above `limit` is left for its next owner, unless it `stays`."""
        self._entries, self._finished, self._messages = epoch.copied()
        self._total, self._unread = epoch.tally.unfinished_records, unread
        self._limit, self._stays = limit, stays
        self._counted: Counter[Hashable] | None = None

    @property
    def count(self) -> int:
        """How many keys there are."""
        return min(len(self._all()), self._total)

    def records(self, key: Hashable) -> int:
        """Return how many unfinished records a key has."""
        return self._all()[key]

    def _all(self) -> Counter[Hashable]:
        if self._counted is None:
            entries, done, limit, stays = self._entries, self._finished, self._limit, self._stays
            if done:
                entries = [entry for entry in entries if id(entry[MESSAGE]) not in done]
            if limit is not None:
                entries = [entry for entry in entries if _is_left(entry, limit, stays)]
            self._counted = Counter(self._unread.keys_of(entries))
            if self._messages:
                self._counted.update(self._unread.read(self._messages))
        return self._counted


class SharedKeys:
    """The same of a handler whose partitions share keys: each key counts where its first record is."""

    __slots__ = ("_counted", "_first", "_queues")

    def __init__(self, queues: list[list[Entry]]) -> None:
        """`queues` are all unfinished records in order, one list for each inbox."""
        self._queues = queues
        self._counted: Counter[Hashable] | None = None
        self._first: Counter[Epoch] = Counter()

    def count_in(self, epoch: Epoch) -> int:
        """Return how many keys have their first record in a partition."""
        self.all()
        return self._first[epoch]

    def all(self) -> Counter[Hashable]:
        """Return how many unfinished records each key has."""
        if self._counted is None:
            self._counted = Counter()
            for queue in self._queues:
                for _, key, _, epoch in queue:
                    if not epoch.ended:
                        self._first[epoch] += key not in self._counted
                        self._counted[key] += 1
        return self._counted


class KeysOfShared(Keys):
    """One partition's part of them."""

    __slots__ = ("_epoch", "_shared")

    def __init__(self, shared: SharedKeys, epoch: Epoch) -> None:
        self._shared, self._epoch = shared, epoch

    @property
    def count(self) -> int:
        """How many keys have their first record here."""
        return self._shared.count_in(self._epoch)

    def _all(self) -> Counter[Hashable]:
        return self._shared.all()


class Inspection:
    """All inboxes of a handler at one moment. Made and asked with the lock, which may be free in between.

    What runs is what consumers show, at the moment of the inspection.
    """

    def __init__(self, inboxes: Inboxes) -> None:
        router = self._router = inboxes.router
        self._shown = router.shown()
        self._running = Counter(map(_epoch_of, self._shown))
        self._held: defaultdict[Epoch, list[Held]] = defaultdict(list)
        for held in inboxes.waiting.held:
            if held.q:
                self._held[held.q[0][EPOCH]].append(held)
        # Calls of ended epochs, by what waits for them.
        self._left: dict[tuple[int, Hashable], Entry] = {}
        if any(epoch.ended for epoch in chain(self._running, self._held)):
            self._left = {_name(entry): entry for entry in inboxes.outliving.calls()}
        self._shared = None if router.shared is None else SharedKeys(self._queues(inboxes))

    def calls(self) -> list[Entry]:
        """Return the calls of ended epochs that keep their keys. Needs no lock."""
        return list(self._left.values())

    def see(self, epoch: Epoch) -> EpochSeen:
        """Return what there is of a partition."""
        awaited, blocked = 0, list[Held]()
        if held := self._held.get(epoch, ()):
            awaited = sum(one.ticket is not None and not one.is_parked for one in held)
            blocked = [one for one in held if one.is_parked and one.q]
        running = min(self._running[epoch], epoch.tally.backlog_records)
        first = epoch.oldest()
        return EpochSeen(
            watermark=epoch.received.next_offset if first is None else first[MESSAGE].offset(),
            in_flight_records=running + awaited,
            blocked_keys=len(blocked),
            held_keys=sum(one.due_s is None for one in blocked) if blocked else 0,
            oldest=self._oldest(epoch, first),
            keys=self._keys(epoch),
        )

    def begun(self, epoch: Epoch) -> set[int]:
        """Return the offsets of a partition that were begun and have no result."""
        started = {entry[MESSAGE].offset() for entry in self._shown if entry[EPOCH] is epoch}
        return started | {
            one.q[0][MESSAGE].offset() for one in self._held.get(epoch, ()) if one.q and self._was_called(one)
        }

    def record(self, entry: Entry) -> RecordSeen:
        """Return what becomes of an unfinished record."""
        known = self._router.attempts.get(id(entry[MESSAGE]))
        status, decision, call = self._status(entry)
        attempts, last_error = (0, "") if known is None else (known.failed, known.last_error)
        return RecordSeen(entry, status, attempts, last_error, decision, call)

    def records_of(self, key: Hashable, epoch: Epoch) -> list[Entry]:
        """Return the unfinished records of a key, in order, those of other partitions included."""
        self._router.unread.end()
        owner = self._router.owner_of(epoch, key)
        if owner is None:
            return []
        inbox = owner[0]
        found: Iterable[Entry] = inbox.log
        if isinstance(inbox, Held):
            found = [*self._still_there(inbox.behind), *inbox.q]
        elif isinstance(inbox, Pile):
            behind = inbox.behind.get((id(epoch.owners), key))
            found = [*self._still_there(None if behind is None else behind[1]), *inbox.log]
        return [
            entry
            for entry in found
            if entry[KEY] == key and entry[EPOCH].owners is epoch.owners and not entry[EPOCH].ended
        ]

    def _still_there(self, behind: Owner | None) -> list[Entry]:
        """Return what a consumer still has of a key that waits elsewhere, with others; it may have left."""
        if behind is None or not behind[0].is_live(behind[1]):
            return []
        self._router.note(behind[0])
        return list(behind[0].log)

    def _status(self, entry: Entry) -> tuple[str, Decision | None, Entry | None]:
        epoch, key = entry[EPOCH], entry[KEY]
        if key is UNREAD:
            inbox = self._router.unread.inbox
            return "running" if inbox is not None and _is_shown(inbox, entry) else "queued", None, None
        owner = self._router.owner_of(epoch, key)
        if owner is None:
            return "running", None, None  # it has finished just now
        inbox = owner[0]
        if self._runs_in(inbox, entry):
            return "running", None, None
        call = self._left.get(_name(entry))
        if inbox in self._router.held and inbox.q and inbox.q[0][MESSAGE] is entry[MESSAGE]:
            return _waits(inbox), inbox.decision, call
        if inbox is self._router.piles.stopped:
            return "paused", STOPPED, call
        return "queued" if call is None else "behind", None, call

    @staticmethod
    def _runs_in(inbox: Inbox, entry: Entry) -> bool:
        """Tell whether a record runs, where its key belongs to this inbox."""
        if isinstance(inbox, Held):
            behind = inbox.behind
        elif isinstance(inbox, Pile):
            known = inbox.behind.get(_name(entry))
            behind = None if known is None else known[1]
        else:
            behind = inbox, 0
        return behind is not None and _is_shown(behind[0], entry)

    def _oldest(self, epoch: Epoch, first: Entry | None) -> RecordSeen | None:
        entry = first
        if epoch.drain_limit is not None:  # what was left for the next owner is in no inbox
            stays = self._staying(epoch)
            entry = next((one for one in epoch.unfinished() if _is_left(one, epoch.drain_limit, stays)), None)
        return None if entry is None else self.record(entry)

    def _staying(self, epoch: Epoch) -> set[int]:
        """Return what a drain has left where it is: what runs, and what waits."""
        begun = {id(entry[MESSAGE]) for entry in self._shown if entry[EPOCH] is epoch}
        waiting = {id(entry[MESSAGE]) for held in self._held.get(epoch, ()) for entry in held.q}
        return begun | waiting

    def _keys(self, epoch: Epoch) -> Keys:
        if self._shared is not None:
            return KeysOfShared(self._shared, epoch)
        limit = epoch.drain_limit
        stays = set() if limit is None else self._staying(epoch)
        return Keys(epoch, limit, stays, self._router.unread)

    def _was_called(self, held: Held) -> bool:
        return held.ticket is not None or id(held.q[0][MESSAGE]) in self._router.attempts

    def _queues(self, inboxes: Inboxes) -> list[list[Entry]]:
        piles = self._router.piles.all()
        return [
            *(list(inbox.log) for inbox in (*inboxes.all_inboxes(), *piles)),
            *(list(held.q) for held in inboxes.waiting.held),
        ]


_epoch_of = itemgetter(EPOCH)


def _name(entry: Entry) -> tuple[int, Hashable]:
    return id(entry[EPOCH].owners), entry[KEY]


def _waits(held: Held) -> str:
    """Return what a waiting key's first record does, in one word."""
    if held.ticket is not None:
        return "sending" if held.is_parked else "deferred"
    if isinstance(held.decision, RetryHead):
        return "waiting"
    return "paused" if held.decision is PAUSED else "held"


def _is_shown(inbox: Inbox, entry: Entry) -> bool:
    """Tell whether a consumer shows a record; its key may have been read since."""
    head, message = inbox.head, entry[MESSAGE]
    if head is message:  # of a run
        return True
    shown = head if isinstance(head, list) else (head,) if isinstance(head, tuple) else ()
    return any(one[MESSAGE] is message for one in shown)


def _is_left(entry: Entry, limit: int, stays: set[int]) -> bool:
    """Tell whether a drain has left a record here."""
    return entry[MESSAGE].offset() <= limit or id(entry[MESSAGE]) in stays
