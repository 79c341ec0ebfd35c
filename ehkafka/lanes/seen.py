"""The contents of one handler's inboxes at one moment: for snapshots, and for commands on keys.

Pure. An `InboxesSeen` is made with the lock, after all that finished was noted, and asked with the lock.
What it returns are values: keys are counted and put into words without the lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, FOREVER, KEY, MESSAGE
from ehkafka.lanes.unread import UNREAD
from ehkafka.lanes.waiting import PAUSED

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.lanes.unread import Unread
    from ehkafka.records import Message

    # Of an epoch what was routed, which messages of it are finished, by identity, and those with unread keys.
    Part = tuple[Epoch, list[Entry], set[int], list[Message]]

STOPPED: Final = HoldHead("its handler is stopped")


class RecordSeen(NamedTuple):
    """An unfinished record.

    `status` is `queued`, `running`, or `waiting: ` and for what: `retry` (its next attempt), `on hold`,
    `paused`, `your answer`, `broker` (to acknowledge its dead letter) or `earlier call` (of an ended epoch).
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

    epoch: Epoch
    watermark: int | None
    # With the handler, or waiting for an answer: of the backlog.
    in_flight_records: int
    # Keys whose first record waits, and how many of them no time lets go.
    blocked_keys: int
    held_keys: int
    oldest: RecordSeen | None
    keys: UnfinishedKeys


class UnfinishedKeys:
    """The keys with unfinished records of a partition, or of several that share keys; counted when asked.

    Needs no lock. A key counts in the first of the partitions that have it.
    """

    def __init__(self, parts: list[Part], unread: Unread) -> None:
        self._parts, self._unread = parts, unread
        self._counted: Counter[Hashable] | None = None
        self._first: dict[Epoch, int] = {}

    def count(self, epoch: Epoch) -> int:
        """Return how many keys count in a partition."""
        self._all()
        return self._first[epoch]

    def records(self, key: Hashable) -> int:
        """Return how many unfinished records a key has."""
        return self._all()[key]

    def _all(self) -> Counter[Hashable]:
        if self._counted is None:
            counted: Counter[Hashable] = Counter()
            for epoch, entries, done, messages in self._parts:
                known = len(counted)
                left = [one for one in entries if id(one[MESSAGE]) not in done] if done else entries
                counted.update(self._unread.keys_of(left))
                if messages:
                    counted.update(self._unread.read(messages))
                self._first[epoch] = len(counted) - known
            self._counted = counted
        return self._counted


class InboxesSeen:
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
            self._left = {router.name_of(entry): entry for entry in inboxes.outliving.calls()}
        # Of all partitions together, where they share keys; made when it is asked for.
        self._keys: UnfinishedKeys | None = None

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
        oldest = first = epoch.oldest()
        if epoch.drain_limit is not None:
            oldest = next(iter(self._part(epoch)[1]), None)
        return EpochSeen(
            epoch,
            watermark=epoch.received.next_offset if first is None else first[MESSAGE].offset(),
            in_flight_records=running + awaited,
            blocked_keys=len(blocked),
            held_keys=sum(one.due_s is None for one in blocked),
            oldest=None if oldest is None else self.record(oldest),
            keys=self._keys_of(epoch),
        )

    def begun(self, epoch: Epoch) -> set[int]:
        """Return the offsets of a partition that were begun and have no result."""
        begun = [entry for entry in self._shown if entry[EPOCH] is epoch]
        waiting = ((held, held.q[0]) for held in self._held.get(epoch, ()) if held.q)
        attempts = self._router.attempts
        begun += [one for held, one in waiting if held.ticket is not None or id(one[MESSAGE]) in attempts]
        return {entry[MESSAGE].offset() for entry in begun}

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
        inbox, name = owner[0], (id(epoch.owners), key)
        found: Iterable[Entry] = inbox.q if isinstance(inbox, Held) else inbox.log
        behind = inbox.owner_behind(name)
        if behind is not None and behind[0].is_live(behind[1]):  # else its consumer may have left
            self._router.note(behind[0])
            found = [*behind[0].log, *found]
        return [entry for entry in found if self._router.name_of(entry) == name and not entry[EPOCH].ended]

    def _status(self, entry: Entry) -> tuple[str, Decision | None, Entry | None]:
        epoch, key = entry[EPOCH], entry[KEY]
        if key is UNREAD:
            inbox = self._router.unread.inbox
            return "running" if inbox is not None and _is_shown(inbox, entry) else "queued", None, None
        owner = self._router.owner_of(epoch, key)
        if owner is None:
            return "running", None, None  # it has finished just now
        inbox = owner[0]
        # Where a key waits, what has begun before is with a consumer.
        runs_in = inbox.owner_behind(self._router.name_of(entry)) if inbox.slack == FOREVER else owner
        if runs_in is not None and _is_shown(runs_in[0], entry):
            return "running", None, None
        call = self._left.get(self._router.name_of(entry))
        if inbox in self._router.held and inbox.q and inbox.q[0][MESSAGE] is entry[MESSAGE]:
            return _waits(inbox), inbox.decision, call
        if inbox is self._router.piles.stopped:
            return "waiting: paused", STOPPED, call
        return "queued" if call is None else "waiting: earlier call", None, call

    def _keys_of(self, epoch: Epoch) -> UnfinishedKeys:
        router = self._router
        if router.shared is None:
            return UnfinishedKeys([self._part(epoch)], router.unread)
        if self._keys is None:
            self._keys = UnfinishedKeys(list(map(self._part, router.epochs.values())), router.unread)
        return self._keys

    def _part(self, epoch: Epoch) -> Part:
        entries, done, messages = epoch.copied()
        if (limit := epoch.drain_limit) is not None:  # what is left for the next owner is in no inbox
            stays = {id(entry[MESSAGE]) for entry in self._shown}
            stays.update(id(entry[MESSAGE]) for held in self._held.get(epoch, ()) for entry in held.q)
            left = (one for one in entries if id(one[MESSAGE]) not in done)
            entries = [one for one in left if one[MESSAGE].offset() <= limit or id(one[MESSAGE]) in stays]
        return epoch, entries, done, messages


_epoch_of = itemgetter(EPOCH)


def _waits(held: Held) -> str:
    """Return the status of a waiting key's first record."""
    if held.ticket is not None:
        return "waiting: broker" if held.is_parked else "waiting: your answer"
    if isinstance(held.decision, RetryHead):
        return "waiting: retry"
    return "waiting: paused" if held.decision is PAUSED else "waiting: on hold"


def _is_shown(inbox: Inbox, entry: Entry) -> bool:
    """Tell whether a consumer shows a record; its key may have been read since."""
    head, message = inbox.head, entry[MESSAGE]
    if head is message:  # of a run
        return True
    shown = head if isinstance(head, list) else (head,) if isinstance(head, tuple) else ()
    return any(one[MESSAGE] is message for one in shown)
