"""Records that have started and wait again: a batch whose handler raised is called again in smaller ones.

Pure; the caller has the lock, and the batch's worker waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.piles import Pile

if TYPE_CHECKING:
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.lanes.routing import Router


def put_back(inboxes: Inboxes, inbox: Inbox) -> None:
    """Put the records of an inbox's worker back, in front of the waiting records of their keys."""
    router = inboxes.router
    router.unread.end()
    router.slow.end_all()
    router.note(inbox)
    assert isinstance(inbox.head, list)
    entries = inbox.head = router.unread.with_keys(inbox.head)
    elsewhere = [entry for entry in entries if entry[EPOCH].ended or _is_elsewhere(router, inbox, entry)]
    inbox.give_up(elsewhere)
    # The numbers of what stays grow behind a record that goes elsewhere.
    for number, entry in enumerate(inbox.head, inbox.noted + 1):
        owners, key = entry[EPOCH].owners, entry[KEY]
        owners[key] = inbox, max(number, owners[key][1])
    inbox.q.extendleft(reversed(inbox.head))
    inbox.head = None
    router.touched.add(inbox)
    for entry in reversed(router.without_ended(elsewhere)):
        _put_first(router, entry)
    if any(epoch.drain_limit is not None for epoch in router.epochs.values()):
        inboxes.ending.sort_out(inbox)


def _is_elsewhere(router: Router, inbox: Inbox, entry: Entry) -> bool:
    """Tell whether the key was paused while the record ran, or its handler was stopped."""
    return router.piles.stopped is not None or entry[EPOCH].owners[entry[KEY]][0] is not inbox


def _put_first(router: Router, entry: Entry) -> None:
    owners, key = entry[EPOCH].owners, entry[KEY]
    place = owners[key][0]
    if not isinstance(place, Held | Pile):
        assert router.piles.stopped is not None
        place = router.piles.stopped
    place.put_first((entry,))
    owners[key] = place, place.sent
