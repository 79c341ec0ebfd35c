"""Calls that outlive their epoch: which there are, which keys wait for them, and how to end that wait.

Pure; the caller has the lock. Such a call keeps its key, because it may still write what later records of the
key would write, too. Only a user can know that this does no harm: `free_key` lets the key continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.piles import Pile

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox, Owner
    from ehkafka.lanes.routing import Router
    from ehkafka.lanes.waiting import Waiting


class Outliving:
    """The calls of one handler whose epoch has ended."""

    def __init__(self, router: Router, waiting: Waiting) -> None:
        self._router = router
        self._waiting = waiting

    def calls(self) -> list[Entry]:
        """Return all that keep their key: what runs, and what was deferred and has no answer."""
        router = self._router
        shown = [entry for entry in router.shown() if entry[EPOCH].ended and router.keeps_key(entry)]
        found = router.unread.with_keys(shown)
        found += [held.q[0] for held in self._waiting.held if _is_left(held)]
        return found

    def call_of(self, key: Hashable, epoch: Epoch) -> Entry | None:
        """Return the call for which the records of a key wait; None where it is none of an ended epoch."""
        self._router.unread.end()
        owner = self._router.owner_of(epoch, key)
        if owner is None:
            return None
        inbox = owner[0]
        if isinstance(inbox, Held):
            if _is_left(inbox):
                return inbox.q[0]
            behind = inbox.behind
        else:
            behind = self._router.running_behind(owner, (id(epoch.owners), key), 0)
        return None if behind is None else self._running(behind, key, epoch)

    def free_key(self, key: Hashable, epoch: Epoch) -> Entry | None:
        """Let a key continue though a call of an ended epoch runs for it; return that call, if there is one.

        From then on the key's records and that call know nothing of each other.
        """
        call = self.call_of(key, epoch)
        if call is None:
            return None
        inbox = epoch.owners[key][0]
        if isinstance(inbox, Held) and _is_left(inbox):
            self._waiting.forget_call(inbox)
            return call
        if isinstance(inbox, Held):
            inbox.behind = None  # it was paused by hand meanwhile, and stays so
        elif isinstance(inbox, Pile):
            del inbox.behind[id(epoch.owners), key]
        else:
            return self._free_from(inbox, key, epoch, call)
        self._free(call)
        return call

    def _free(self, call: Entry) -> None:
        """Let a running record keep its key no more, with all others of its key in its batch."""
        router = self._router
        name = router.name_of(call)
        for inbox in (*router.inboxes, *router.leaving):
            router.freed.update(id(one[MESSAGE]) for one in inbox.running() if router.name_of(one) == name)

    def _free_from(self, inbox: Inbox, key: Hashable, epoch: Epoch, call: Entry) -> Entry | None:
        """Take what waits behind a call to other consumers; None where the call has just ended by itself."""
        router, number = self._router, epoch.owners[key][1]
        pulled = router.pull(inbox, key, epoch)
        owner = epoch.owners[key] = inbox, number - len(pulled)
        still_runs = self._running(owner, key, epoch) is call
        if still_runs:
            del epoch.owners[key]
            self._free(call)
        for entry in pulled:
            router.place(entry)
        return call if still_runs else None

    def _running(self, owner: Owner, key: Hashable, epoch: Epoch) -> Entry | None:
        """Return what runs of a key with a consumer, if all of that is of ended epochs."""
        router, (inbox, number) = self._router, owner
        if not inbox.is_live(number):
            return None  # it has ended, and its consumer may have left
        router.note(inbox)
        its = [
            entry
            for entry in inbox.running()
            if entry[KEY] == key and entry[EPOCH].owners is epoch.owners and router.keeps_key(entry)
        ]
        return its[0] if its and all(entry[EPOCH].ended for entry in its) else None


def _is_left(held: Held) -> bool:
    """Tell whether a key waits for the answer to a record whose epoch has ended."""
    return held.ticket is not None and held.ticket.attempt.epoch.ended
