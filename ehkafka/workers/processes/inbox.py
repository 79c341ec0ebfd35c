"""The queue of one child process, and the records that the child has.

All of it belongs to the holder of the hub's lock: the thread that owns the child takes that, too. Each
record of the child's batch has a place. Places leave from the left as their records end, in the order in
which the child runs them, and from the right as those are taken back that it has not started. A claim for
each (see `pipe`) tells which these are.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import KEY, SIZE, Inbox
from ehkafka.lanes.order import KeyFailure
from ehkafka.lanes.routing import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name
    from ehkafka.workers.processes.pipe import Claims
    from ehkafka.workers.rate import Pace


class ChildInbox(Inbox):
    """The inbox of a child process; `head` shows what of its batch is not known to have ended."""

    __slots__ = ("_left", "claims", "pace", "places")

    def __init__(self, number: int, make_queue: Callable[[], deque[Any]] = deque) -> None:
        super().__init__(number, make_queue)
        # None while there is no child. The rate limit, if there is one.
        self.claims: Claims | None = None
        self.pace: Pace | None = None
        # None where a record was taken over meanwhile: the child passes over it.
        self.places: deque[Entry | None] = deque()
        self._left = 0

    def take(self, records_max: int, bytes_max: int, *, one_of_a_key: bool) -> list[Entry]:
        """Let the child have a batch: so many records and bytes at most, but for a single record.

        A record whose key could not be computed comes alone: it is not to be run.
        """
        assert not self.places, "the child has a batch"
        q = self.q
        taken: list[Entry] = []
        names: set[Name] = set()
        size = 0
        while q and len(taken) < records_max:
            name, is_keyless = Router.name_of(q[0]), isinstance(q[0][KEY], KeyFailure)
            size += q[0][SIZE]
            if taken and (size > bytes_max or is_keyless or (one_of_a_key and name in names)):
                break
            if self.pace is not None and not self.pace.take():
                break
            names.add(name)
            taken.append(q.popleft())
            if is_keyless:
                break
        self.slack = max(1, len(taken))
        if taken:
            self.places.extend(taken)
            self._show()
            if self.claims is not None and not isinstance(taken[0][KEY], KeyFailure):
                self.claims.offer(len(taken))  # before the child has them: they can be taken back at once
        self._left = 0 if self.claims is None else self.claims.left()
        return taken

    def started(self) -> int:
        """Return how many of the places the child has begun with."""
        return len(self.places) - (0 if self.claims is None else self.claims.left())

    def settle(self, places: int) -> None:
        """Let so many places leave, which have ended."""
        for _ in range(places):
            self.places.popleft()
        self._show()

    def rest(self) -> None:
        """Show that the child has no batch any more."""
        assert not any(self.places), "the child has records"
        self.places.clear()
        self.head = None

    def behind(self, entry: Entry) -> list[Entry]:
        """Return the records of a record's key that have a later place."""
        name, places = Router.name_of(entry), iter(self.places)
        for one in places:
            if one is entry:
                break
        return [one for one in places if one is not None and Router.name_of(one) == name]

    def take_back(self) -> list[Entry]:
        """Empty the queue, and take back what the child has not started; in order."""
        waiting = super().take_back()
        withdrawn: list[Entry] = []
        for _ in range(0 if self.claims is None else self.claims.take_back()):
            if self.pace is not None:
                self.pace.give_back()
            if (entry := self.places.pop()) is not None:
                withdrawn.append(entry)
                self.log.pop()
        if withdrawn:
            withdrawn.reverse()
            self.sent -= len(withdrawn)
            self._show()
        return withdrawn + waiting

    def has_waiting(self, number: int) -> bool:
        """Tell whether the record of that number waits here: it can be taken back."""
        return number > self.sent - len(self.q) - (0 if self.claims is None else self.claims.left())

    def give_up(self, entries: Sequence[Entry]) -> None:
        """Take records over of keys of which one has failed: the child passes over those that follow."""
        gone = set(map(id, entries))
        super().give_up(entries)
        self.places = deque(None if id(one) in gone else one for one in self.places)

    def take_finished(self) -> list[Entry]:
        """Return the records that have finished since the last call, in order."""
        if self.places and self.claims is not None and (left := self.claims.left()) != self._left:
            self._left = left
            self._show()  # another list: that is how a look at heads sees that the child gets on
        return super().take_finished()

    def _show(self) -> None:
        self.head = [entry for entry in self.places if entry is not None]
