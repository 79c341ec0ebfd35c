"""Calls that outlive their epoch: which there are, which keys wait for them, and how to end that wait.

Pure; the caller has the lock. Such a call keeps its key, because it may still write what later records of the
key would write, too. Only a user can know that this does no harm: `free_key` lets the key continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.inbox import EPOCH, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Router
    from ehkafka.lanes.waiting import WaitingKeys


class Outliving:
    """The calls of one handler whose epoch has ended."""

    def __init__(self, router: Router, waiting: WaitingKeys) -> None:
        self._router = router
        self._waiting = waiting

    def calls(self) -> list[Entry]:
        """Return all that keep their key: what runs, and what was deferred and has no answer."""
        router = self._router
        shown = [entry for entry in router.shown() if entry[EPOCH].ended and router.keeps_key(entry)]
        found = router.unread.with_keys(shown)
        found += [held.q[0] for held in self._waiting.held if _is_left(held)]
        return found

    def free_key(self, key: Hashable, epoch: Epoch) -> Entry | None:
        """Let a key continue though a call of an ended epoch runs for it; return that call, if there is one.

        From then on the key's records and that call know nothing of each other.
        """
        waiting = self._waiting
        was_paused = not waiting.pause_key(key, epoch)  # what waits of it is in one place then
        held = waiting.find(key, epoch)
        assert held is not None
        if _is_left(held):
            call: Entry | None = held.q[0]
            waiting.forget_call(held)
        elif (call := self._running_behind(held)) is not None:
            held.behind = None
            self._free(call)
        if not was_paused:
            waiting.resume_key(key, epoch)
        return call

    def _running_behind(self, held: Held) -> Entry | None:
        """Return what runs of a waiting key with a consumer, if all of that is of ended epochs."""
        router, behind = self._router, held.behind
        if behind is None or not behind[0].is_live(behind[1]):
            return None  # it has ended, and its consumer may have left
        router.note(behind[0])
        name = id(held.owners), held.key
        its = [one for one in behind[0].running() if router.name_of(one) == name and router.keeps_key(one)]
        return its[0] if its and all(entry[EPOCH].ended for entry in its) else None

    def _free(self, call: Entry) -> None:
        """Let a running record keep its key no more, with all others of its key in its batch."""
        router = self._router
        name = router.name_of(call)
        for pile in router.piles.all():
            pile.behind.pop(name, None)
        for inbox in (*router.inboxes, *router.leaving):
            router.freed.update(id(one[MESSAGE]) for one in inbox.running() if router.name_of(one) == name)


def _is_left(held: Held) -> bool:
    """Tell whether a key waits for the answer to a record whose epoch has ended."""
    return held.ticket is not None and held.ticket.attempt.epoch.ended
