"""The queue of one child process, and the records that the child has.

All of it belongs to the holder of the hub's lock: the thread that owns the child takes that, too. What the
child has is shown as a list: its records end from the left, in the order in which the child runs them, and
wait again from the right as those are withdrawn that it has not started. A permit for each (see `wire`) tells
which these are.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import SIZE, Inbox
from ehkafka.lanes.routing import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.routing import Name
    from ehkafka.workers.processes.wire import Permits
    from ehkafka.workers.rate import Pace


class ChildInbox(Inbox):
    """The inbox of a child process; `head` lists what of its batch is not known to have ended."""

    __slots__ = ("_left", "pace", "permits")

    def __init__(self, number: int, make_queue: Callable[[], deque[Any]] = deque) -> None:
        super().__init__(number, make_queue)
        # None while there is no child: what it had has been started. The rate limit, if there is one.
        self.permits: Permits | None = None
        self.pace: Pace | None = None
        self._left = 0

    def take(self, records_max: int, bytes_max: int, *, one_of_a_key: bool) -> list[Entry]:
        """Let the child have a batch: so many records and bytes at most, but for a single record.

        It has none now, and what it had has left the log.
        """
        taken: list[Entry] = []
        names: set[Name] = set()
        size = 0
        for entry in islice(self.q, records_max):
            size += entry[SIZE]
            if taken and size > bytes_max:
                break
            if one_of_a_key:
                if (name := Router.name_of(entry)) in names:
                    break
                names.add(name)
            if self.pace is not None and not self.pace.take():
                break
            taken.append(entry)
        for _ in taken:
            self.q.popleft()
        self.slack = max(1, len(taken))
        if taken:
            self.head = taken.copy()
            if self.permits is not None:
                self.permits.offer(len(taken))  # before the child has them: they can be taken back at once
        self._left = self._permits_left()
        return taken

    def _permits_left(self) -> int:
        return 0 if self.permits is None else self.permits.left()

    def begun(self) -> int:
        """Return how many of the records that it shows the child has begun with."""
        return len(self._shown()) - self._permits_left()

    def _shown(self) -> list[Entry]:
        return self.head if isinstance(self.head, list) else []

    def withdraw(self) -> None:
        """Let what the child has not started wait again: in front of the others, with its numbers."""
        shown = self._shown()
        withdrawn = 0 if self.permits is None else self.permits.take(len(shown))
        for entry in shown[: -withdrawn - 1 : -1]:
            self.q.appendleft(entry)
            if self.pace is not None:
                self.pace.give_back()
        if withdrawn:
            self.head = shown[:-withdrawn]

    def take_back(self) -> list[Entry]:
        """Empty the queue, and take back what the child has not started; in order."""
        self.withdraw()
        return super().take_back()

    def has_waiting(self, number: int) -> bool:
        """Tell whether the record of that number waits here: it can be taken back."""
        return number > self.sent - len(self.q) - self._permits_left()

    def take_finished(self) -> list[Entry]:
        """Return the records that have finished since the last call, in order."""
        if self.head and (left := self._permits_left()) != self._left:
            self._left = left
            self.head = self._shown().copy()  # that is how a look at heads sees that the child gets on
        return super().take_finished()
