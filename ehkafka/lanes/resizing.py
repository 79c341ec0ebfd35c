"""Consumers come and go while a handler runs: their inboxes. Pure; the caller has the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.lanes.inbox import Inbox
    from ehkafka.lanes.routing import Router


def grow(router: Router, inboxes: int) -> list[Inbox]:
    """Add inboxes; return them, for their consumers."""
    router.unread.end()
    first = 1 + max((inbox.number for inbox in (*router.inboxes, *router.leaving)), default=-1)
    added = [router.make_inbox(number, router.make_queue) for number in range(first, first + inboxes)]
    router.inboxes += added
    router.open += added
    router.width += inboxes
    return added


def shrink(router: Router, inboxes: int) -> list[Inbox]:
    """Take inboxes away, and what waits there to the others; return them.

    Each stays known until its consumer has ended its call, and what waits of that call's key, and leaves.
    """
    router.unread.end()
    gone, router.inboxes = router.inboxes[-inboxes:], router.inboxes[:-inboxes]
    router.width = len(router.inboxes)
    router.open = [inbox for inbox in router.open if inbox not in gone] or list(router.inboxes)
    router.idle.clear()
    for inbox in router.inboxes:
        inbox.listed = False
    router.leaving += gone
    for inbox in gone:
        inbox.leaves = True
        inbox.stuck = True  # so that it takes no new key, though its consumer may just list it as idle
        router.unload(inbox, router.open)
        router.touched.add(inbox)
    return gone


def stay(router: Router, inboxes: int) -> list[Inbox]:
    """Let up to so many inboxes stay that are to go and whose consumers have not left; return them."""
    router.unread.end()
    staying, router.leaving = router.leaving[:inboxes], router.leaving[inboxes:]
    for inbox in staying:
        inbox.leaves = inbox.stuck = False
    router.inboxes += staying
    router.open += staying
    router.width += len(staying)
    return staying


def leave(router: Router, inbox: Inbox) -> bool:
    """Let the consumer of an inbox that is to go leave, if nothing is left for it; else it must stay.

    Without the lock it cannot know: the dispatcher puts a key's next record behind its call.
    """
    router.note(inbox)
    if inbox.log or not inbox.leaves:
        return False
    router.forget(inbox)
    return True
