"""The queue of one child process, and the records that the child has.

All of it belongs to the holder of the hub's lock: the thread that owns the child takes that, too. Records of
the child's batch end from the left, in the order in which the child runs them, and wait again from the right
as those are withdrawn that it has not started. A claim for each (see `wire`) tells which these are.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, SIZE, Inbox
from ehkafka.lanes.routing import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name
    from ehkafka.workers.processes.wire import Claims
    from ehkafka.workers.rate import Pace


class ChildInbox(Inbox):
    """The inbox of a child process; `head` shows what of its batch is not known to have ended."""

    __slots__ = ("_left", "batch", "claims", "ended", "gone", "pace")

    def __init__(self, number: int, make_queue: Callable[[], deque[Any]] = deque) -> None:
        super().__init__(number, make_queue)
        # None while there is no child: what it had has been started. The rate limit, if there is one.
        self.claims: Claims | None = None
        self.pace: Pace | None = None
        # What the child was given and was not withdrawn; how many of these have ended.
        self.batch: list[Entry] = []
        self.ended = 0
        # Those of its messages that were taken over, by identity: the child passes over them.
        self.gone: set[int] = set()
        self._left = 0

    def take(self, records_max: int, bytes_max: int, *, one_of_a_key: bool) -> list[Entry]:
        """Let the child have a batch: so many records and bytes at most, but for a single record."""
        assert not self.batch, "the child has a batch"
        q, pace = self.q, self.pace
        taken: list[Entry] = []
        names: set[Name] = set()
        size = 0
        for entry in islice(q, records_max):
            size += entry[SIZE]
            if taken and size > bytes_max:
                break
            if one_of_a_key:
                if (name := Router.name_of(entry)) in names:
                    break
                names.add(name)
            if pace is not None and not pace.take():
                break
            taken.append(entry)
        for _ in taken:
            q.popleft()
        self.slack = max(1, len(taken))
        self.batch = taken.copy()
        if taken:
            self._show()
            if self.claims is not None:
                self.claims.offer(len(taken))  # before the child has them: they can be taken back at once
        self._left = self._unclaimed()
        return taken

    def _unclaimed(self) -> int:
        return 0 if self.claims is None else self.claims.left()

    def started(self) -> int:
        """Return how many records of its batch the child has begun with."""
        return len(self.batch) - self._unclaimed()

    def end(self, records: int) -> None:
        """Let so many records of the batch, from its first one on, have ended."""
        self.ended = records
        self._show()

    def rest(self) -> None:
        """Show that the child has no batch any more."""
        assert not self.head, "the child has records"
        self.batch, self.ended, self.head = [], 0, None
        self.gone.clear()

    def behind(self, entry: Entry) -> list[Entry]:
        """Return the records of a record's key that the child has behind it."""
        key, owners, batch = entry[KEY], entry[EPOCH].owners, iter(self.batch)
        for one in batch:
            if one is entry:
                break
        return [one for one in batch if one[KEY] == key and one[EPOCH].owners is owners]

    def withdraw(self) -> None:
        """Let what the child has not started wait again: in front of the others, with its numbers."""
        withdrawn = 0 if self.claims is None else self.claims.take(len(self.batch))
        for _ in range(withdrawn):
            if self.pace is not None:
                self.pace.give_back()
            if id((entry := self.batch.pop())[MESSAGE]) not in self.gone:
                self.q.appendleft(entry)
        if withdrawn:
            self._show()

    def take_back(self) -> list[Entry]:
        """Empty the queue, and take back what the child has not started; in order."""
        self.withdraw()
        return super().take_back()

    def has_waiting(self, number: int) -> bool:
        """Tell whether the record of that number waits here: it can be taken back."""
        return number > self.sent - len(self.q) - self._unclaimed()

    def give_up(self, entries: Sequence[Entry]) -> None:
        """Take records over of keys of which one has failed: the child passes over those that follow."""
        super().give_up(entries)
        self.gone.update(id(entry[MESSAGE]) for entry in entries)

    def take_finished(self) -> list[Entry]:
        """Return the records that have finished since the last call, in order."""
        if self.batch and (left := self._unclaimed()) != self._left:
            self._left = left
            self._show()  # another list: that is how a look at heads sees that the child gets on
        return super().take_finished()

    def _show(self) -> None:
        unfinished = islice(self.batch, self.ended, None)
        if self.gone:
            self.head = [entry for entry in unfinished if id(entry[MESSAGE]) not in self.gone]
        else:
            self.head = list(unfinished)
