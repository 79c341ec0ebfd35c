"""A look over all inboxes, every few milliseconds: what does not move, and which consumers have nothing.

Pure; time comes in as an argument; the caller has the lock. Records move only to consumers that can take them
now: while all workers are in long calls, a look costs a pass over the inboxes and nothing else.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections import deque

    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.routing import Name, Router
    from ehkafka.lanes.width import Width

# A head that has not moved for so long, or for so many mean times, keeps nothing waiting behind it.
LATE_S: Final = 5e-3
LATE_MEANS: Final = 4
# But never longer: one call of minutes must not let all later ones wait.
LATE_S_MAX: Final = 50e-3
# A single record that waits is worth moving to a free consumer where calls take so long.
LONG_S: Final = 2e-3
# If no consumer is free, busy ones take records from behind a stuck one, but only after this time or so many
# mean times: records of a handler whose calls are all long would else move at each check.
PATIENCE_S: Final = 0.25
PATIENCE_MEANS: Final = 8
# What waits behind such heads is moved in one check until each free consumer has so many calls.
ROOM_CALLS: Final = 2
# The weight of the last look in the mean time of a record.
MEAN_SHARE: Final = 0.2
# A look at fewer records weighs less.
MEAN_RECORDS: Final = 200


class Balance:
    """Balances the inboxes of one handler."""

    def __init__(self, router: Router, width: Width) -> None:
        self._router = router
        # How long a record takes a worker, by what busy workers removed between looks, in seconds.
        self.mean_s = 0.0
        # Whether any consumer had nothing.
        self.has_free = True
        # How many consumers had any record waiting, be it for a call or too few for one.
        self.queued = 0
        # How many records had been received by the last check.
        self.received_records = 0
        # Whether the last check has given records to other consumers: then the next one may come soon.
        self.has_moved = False
        self.width = width
        if width.is_quick:
            router.width = 1
            router.open = router.inboxes[:1]
        self._last: _LastCheck | None = None
        # Inboxes in which only records of the running keys waited at the last look.
        self._alone: dict[Inbox, _Alone] = {}
        # How many records all consumers had removed by the last check.
        self._removed = 0
        # The time of consumers whose head has moved, since a record was removed last. A call that hangs does
        # not count before it ends.
        self._busy_s = 0.0

    def check(self, now_s: float, waits: int | None = None) -> None:
        """Take in what has finished, and move what waits behind slow records.

        Looks at inboxes that have something: of a thousand consumers most may rest. `waits`: how often the
        first consumer's thread has waited, where `counts_waits` asks for it and it is known.
        """
        router = self._router
        moving = router.moving()
        # Where one consumer runs all, the first call that takes long ends that: all others wait behind it.
        late_s = 2 * LATE_S if self.width.is_quick else min(LATE_S_MAX, max(LATE_S, LATE_MEANS * self.mean_s))
        self.has_moved = False
        router.note_all()
        for inbox in list(moving):
            if inbox.leaves:
                continue
            removed = inbox.sent - len(inbox.q)
            self._removed += removed - inbox.removed
            inbox.removed = removed
            self._see(inbox, now_s, late_s)
            if not inbox.log and not inbox.frozen:
                moving.remove(inbox)
        router.purge()
        waiting = [inbox for inbox in moving if inbox.q and not inbox.leaves]
        # A batch that fills needs no look: its worker sleeps until it is full, or its time has come.
        fills = sum(1 for inbox in waiting if inbox.asleep) if router.deep else 0
        self.queued = len(waiting) - fills
        self.received_records = router.tally.received_records
        first = router.inboxes[0]
        seen = _LastCheck(now_s, self._removed, first.removed, bool(first.q), waits)
        if self._last is not None and now_s > self._last.at_s:
            self._take_mean(self._last, seen)
            self._set_width(self._last, seen)
        self._last = seen
        self.has_free = self._list_idle(moving)
        if router.unread.inbox is not None:
            return  # all is in one inbox, and no other consumer may take any of it
        self._alone = {inbox: seen for inbox, seen in self._alone.items() if inbox in moving}
        self._unload_stuck(moving, now_s)
        if self.has_free:
            self._even_out(moving)

    def waiting(self) -> list[int]:
        """Return how many records wait for each consumer, as they are now. Needs no lock.

        Those behind a record that does not move are left out: while a consumer is free, they are of its key.
        """
        inboxes = self._router.moving_now()
        if not self.has_free:
            return [len(inbox.q) for inbox in inboxes]
        return [len(inbox.q) for inbox in inboxes if not inbox.stuck]

    def _list_idle(self, moving: set[Inbox]) -> bool:
        """List the consumers that have nothing, where the list is not right; tell whether there are any."""
        self._open()
        router = self._router
        inboxes, width = router.inboxes, router.width
        rest = len(inboxes) - sum(1 for inbox in moving if not inbox.leaves)
        if width < len(inboxes) or len(router.idle) < rest:
            router.idle.clear()
            for inbox in self._free():
                inbox.listed = True
                router.idle.append(inbox)
        return bool(router.idle)

    def _open(self) -> None:
        """Choose which consumers take new keys: those that move, as many as there may be."""
        router = self._router
        inboxes, width = router.inboxes, router.width
        if width < len(inboxes) or any(inbox.stuck for inbox in router.moving()):
            router.open = list(islice((inbox for inbox in inboxes if not inbox.stuck), width))
        elif len(router.open) < len(inboxes):
            router.open = list(inboxes)

    def _free(self) -> list[Inbox]:
        return [inbox for inbox in self._router.open if inbox.is_empty() and not inbox.frozen]

    def _see(self, inbox: Inbox, now_s: float, late_s: float) -> None:
        """Note whether an inbox's head has moved."""
        head = inbox.head
        if inbox.seen is not None and head is not inbox.seen:
            self._busy_s += now_s - inbox.seen_s
        if head is None:
            inbox.stuck, inbox.seen = False, None
        elif head is not inbox.seen:
            inbox.seen, inbox.seen_s, inbox.stuck = head, now_s, False
        elif now_s - inbox.seen_s > late_s:
            inbox.stuck = True

    def _take_mean(self, last: _LastCheck, seen: _LastCheck) -> None:
        if (done := seen.removed - last.removed) > 0:
            share = min(MEAN_SHARE, done / MEAN_RECORDS) if self.mean_s else 1.0
            self.mean_s += share * (self._busy_s / done - self.mean_s)
            self._busy_s = 0.0

    def _set_width(self, last: _LastCheck, seen: _LastCheck) -> None:
        """Choose how many consumers take new keys."""
        width, router = self.width, self._router
        passed_s, done = seen.at_s - last.at_s, seen.first_removed - last.first_removed
        # Of several that compute, the next one takes the place of one that is stuck.
        if width.is_quick and any(inbox.stuck for inbox in router.moving()):
            width.widen(seen.at_s)
        else:
            was_fed = last.is_first_fed and seen.is_first_fed and done > 0
            known = last.waits is not None and seen.waits is not None
            waits = (seen.waits - last.waits) / max(1, done) if known else None  # type: ignore[operator]
            width.note(seen.at_s, self.mean_s, passed_s / done if was_fed else None, waits)
        router.width = len(router.inboxes) if width.consumers is None else width.consumers
        if router.width > 1:
            self._open()  # what is unread goes to all of them at once
            self.has_moved |= router.unread.inbox is not None
            router.unread.end()

    def _unload_stuck(self, moving: set[Inbox], now_s: float) -> None:
        """Move what waits behind records that do not move to consumers that are free, or else that move."""
        router = self._router
        late = [inbox for inbox in moving if inbox.stuck and inbox.q and not inbox.leaves]
        if not late:
            return
        free = self._free() if self.has_free else []
        # More records would only wait there; by the next check other consumers are free.
        room = ROOM_CALLS * len(free) * max(1, router.deep)
        patience_s = max(PATIENCE_S, PATIENCE_MEANS * self.mean_s)
        for inbox in sorted(late, key=_by_age):
            if free and room <= 0:
                return
            targets = free or (router.open if now_s - inbox.seen_s > patience_s else [])
            if targets and not inbox.frozen and self._has_other_keys(inbox):
                moved = router.unload(inbox, targets[: self._needed(inbox)])
                self.has_moved |= moved > 0
                room -= moved

    def _even_out(self, moving: set[Inbox]) -> None:
        """Give consumers that have nothing what waits where another one has more than it takes next."""
        router = self._router
        full = [inbox for inbox in moving if not inbox.stuck and self._is_full(inbox)]
        if router.width < len(router.inboxes):
            full = [inbox for inbox in full if inbox in router.open]
        if not full:
            return
        free = self._free()
        full.sort(key=_by_waiting)
        spare = [inbox for inbox in free if not inbox.q]
        while spare and full:
            inbox = full.pop()
            if not inbox.frozen and self._has_other_keys(inbox):
                self.has_moved |= router.unload(inbox, [spare.pop()], half=len(inbox.q) > 2) > 0

    def _has_other_keys(self, inbox: Inbox) -> bool:
        """Tell whether anything waits in an inbox that could run elsewhere.

        To look costs little, to move records and put them back much: all of a hot key's, at every look.
        """
        router, last, head = self._router, self._alone.get(inbox), inbox.head
        if last is not None and last.q is not inbox.q:
            last = None  # some was taken back since
        if last is None or last.head is not head or last.sent < inbox.sent:
            names = {router.name_of(one) for one in inbox.running() if router.keeps_key(one)}
            fresh = inbox.sent - last.sent if last is not None and last.names == names else len(inbox.q)
            if any(router.name_of(one) not in names for one in islice(reversed(inbox.log), fresh)):
                return True
            self._alone[inbox] = _Alone(inbox.q, head, inbox.sent, names)
        return False

    def _needed(self, inbox: Inbox) -> int | None:
        """Return how many consumers are to have what waits in an inbox; None: as many as there are."""
        deep = self._router.deep
        return max(1, len(inbox.q) // deep) if deep else None

    def _is_full(self, inbox: Inbox) -> bool:
        """Tell whether an inbox has more than its consumer takes next."""
        waiting, deep = len(inbox.q), self._router.deep
        # A batch worker that runs nothing waits for more, or is about to take what it has.
        if deep:
            return waiting >= deep and inbox.head is not None
        return waiting > (0 if self.mean_s >= LONG_S else 1)


def _by_age(inbox: Inbox) -> tuple[float, int]:
    return inbox.seen_s, inbox.number


def _by_waiting(inbox: Inbox) -> tuple[int, int]:
    return len(inbox.q), inbox.number


class _Alone(NamedTuple):
    """An inbox in which only records of the keys that run were seen to wait."""

    q: deque[Entry]
    head: object
    sent: int
    names: set[Name]


class _LastCheck(NamedTuple):
    """The numbers of the last check."""

    at_s: float
    # Records that all consumers, and that the first one, have removed so far; it had more then.
    removed: int
    first_removed: int
    is_first_fed: bool
    waits: int | None
