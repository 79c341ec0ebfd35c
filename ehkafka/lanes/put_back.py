"""Records that have started and wait again: a batch whose handler raised is called again in smaller ones.

Pure; the caller has the lock, and the batch's worker waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.piles import Pile

if TYPE_CHECKING:
    from ehkafka.lanes.ending import Ending
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.routing import Router


class PutBack:
    """Puts the records of one worker back in front of what waits of their keys, wherever that is."""

    def __init__(self, router: Router, ending: Ending) -> None:
        self._router = router
        self._ending = ending

    def put_back(self, inbox: Inbox) -> None:
        """Let all that the consumer of this inbox has wait again."""
        router = self._router
        router.unread.end()
        router.slow.end_all()
        router.note(inbox)
        assert isinstance(inbox.head, list)
        entries = inbox.head = router.unread.with_keys(inbox.head)
        elsewhere = [entry for entry in entries if entry[EPOCH].ended or self._is_elsewhere(inbox, entry)]
        inbox.give_up(elsewhere)
        self._own_again(inbox)
        inbox.put_back()
        router.touched.add(inbox)
        for entry in reversed(router.without_ended(elsewhere)):
            self._put_first(entry)
        if any(epoch.drain_limit is not None for epoch in router.epochs.values()):
            self._ending.sort_out(inbox)

    @staticmethod
    def _own_again(inbox: Inbox) -> None:
        """Let owners know the numbers of what stays: they grow behind a record that goes elsewhere."""
        assert isinstance(inbox.head, list)
        for number, entry in enumerate(inbox.head, inbox.noted + 1):
            owners, key = entry[EPOCH].owners, entry[KEY]
            owners[key] = inbox, max(number, owners[key][1])

    def _is_elsewhere(self, inbox: Inbox, entry: Entry) -> bool:
        """Tell whether the key was paused while the record ran, or its handler was stopped."""
        return self._router.piles.stopped is not None or entry[EPOCH].owners[entry[KEY]][0] is not inbox

    def _put_first(self, entry: Entry) -> None:
        owners, key = entry[EPOCH].owners, entry[KEY]
        place = owners[key][0]
        if isinstance(place, Held):
            place.put_first((entry,), self._router.tally)
            return
        pile = place if isinstance(place, Pile) else self._router.piles.stopped
        assert pile is not None
        pile.put_first(entry)
        owners[key] = (pile, pile.sent)
