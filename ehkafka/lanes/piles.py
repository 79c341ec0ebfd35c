"""Piles: records of many keys that nothing may start: a partition's before it is open, a stopped handler's.

Pure; the caller has the lock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, FOREVER, KEY, Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Owner
    from ehkafka.lanes.routing import Name, Router


class Pile(Inbox):
    """Records of many keys that nothing may start: a partition's before it is open, a stopped handler's.

    `behind` has, by key, its map of owners and the owner that it had when its first record came here: what
    still runs of that key.
    """

    __slots__ = ("behind",)

    def __init__(self, number: int, make_queue: Callable[[], deque[Any]] = deque) -> None:
        super().__init__(number, make_queue)
        self.slack = FOREVER
        self.head = []  # it never gets a consumer, so its records count as unfinished
        self.behind: dict[Name, tuple[dict[Hashable, Owner], Owner]] = {}

    def put_first(self, entries: Sequence[Entry]) -> None:
        """Put records that have started and are to wait in front of the others of their keys."""
        self.q.extendleft(reversed(entries))
        self.log.extendleft(reversed(entries))
        self.sent += len(entries)
        for entry in entries:
            self.behind.pop((id(entry[EPOCH].owners), entry[KEY]), None)

    def owner_behind(self, name: Name) -> Owner | None:
        """Return what may still run of a key."""
        known = self.behind.get(name)
        return None if known is None else known[1]


class Piles:
    """The piles of one handler."""

    def __init__(self, router: Router) -> None:
        self._router = router
        # Where everything waits while the handler is stopped; and the partitions that are not open yet.
        self.stopped: Pile | None = None
        self.unopened: dict[Epoch, Pile] = {}

    @property
    def is_open(self) -> bool:
        """Whether there is none: whatever is routed may start."""
        return self.stopped is None and not self.unopened

    def all(self) -> list[Pile]:
        """Return all of them."""
        return [*self.unopened.values(), *(() if self.stopped is None else (self.stopped,))]

    def hold_back(self, epoch: Epoch) -> None:
        """Let the records of an epoch wait until `let_in`: the user's code is not ready for them."""
        self._router.unread.end()
        self.unopened[epoch] = Pile(-1, self._router.make_queue)

    def let_in(self, epoch: Epoch) -> None:
        """Let the records of an epoch start."""
        pile = self.unopened.pop(epoch, None)
        if pile is not None:
            self._spread(pile)

    def stop(self) -> bool:
        """Start nothing more, whatever its key; what runs ends. False where the handler is stopped."""
        if self.stopped is not None:
            return False
        router = self._router
        router.unread.end()
        router.slow.end_all()
        pile = self.stopped = Pile(-2, router.make_queue)
        for inbox in (*router.inboxes, *router.leaving):
            taken = inbox.take_back()
            router.note(inbox)
            for entry, running in router.running_keys(inbox):
                pile.behind[router.name_of(entry)] = (entry[EPOCH].owners, running)
            router.put_all(pile, taken)
        return True

    def resume(self) -> bool:
        """End what `stop` began. False where the handler is not stopped."""
        pile, self.stopped = self.stopped, None
        if pile is None:
            return False
        self._spread(pile)
        return True

    def _spread(self, pile: Pile) -> None:
        """Route all that waits in a pile, each key behind what still runs of it."""
        entries = list(pile.q)
        for (_, key), (owners, running) in pile.behind.items():
            if (owner := owners.get(key)) is not None and owner[0] is pile:
                owners[key] = running
        pile.q.clear()
        pile.sent, pile.head = FOREVER, None  # it owns no key any more
        for entry in entries:
            self._router.place(entry)
