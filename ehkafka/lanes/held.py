"""A key without a worker: its first record waits for something, and all later ones of the key behind it.

Pure. What it waits for is its decision (a retry's time, a policy's hold, a pause) or its ticket (the
answer to a deferred record, or a dead letter that was sent and is not acknowledged).
"""

from __future__ import annotations

from collections import deque
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, FOREVER, SIZE, Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from ehkafka.lanes.decision import AfterDeadLetter, Decision, Ticket
    from ehkafka.lanes.inbox import Entry, Owner
    from ehkafka.lanes.routing import Name


class Held(Inbox):
    """The records of one key that wait, oldest first; an inbox without a consumer, which owns its key."""

    __slots__ = (
        "after",
        "behind",
        "by_hand",
        "by_hand_reason",
        "counted",
        "decision",
        "due_s",
        "is_parked",
        "is_paused",
        "key",
        "owners",
        "ticket",
        "window",
    )

    def __init__(
        self, key: Hashable, owners: dict[Hashable, Owner], make_queue: Callable[[], deque[Any]]
    ) -> None:
        super().__init__(-3, make_queue)
        self.log = deque(maxlen=0)  # nothing is taken back from here, and no consumer finishes anything
        self.slack = FOREVER
        self.head = []  # it never gets a consumer, so its records count as unfinished
        self.key = key
        self.owners = owners
        self.decision: Decision | None = None
        # When a retry is due; None where no time ends the wait.
        self.due_s: float | None = None
        self.ticket: Ticket | None = None
        self.is_paused = False
        # What the key's next records do because one was dead-lettered; it outlives the records here.
        self.after: AfterDeadLetter = "continue"
        # Where the paused key's running record is; in slow start, the last record that was let go.
        self.behind: Owner | None = None
        # How many of its first records go together: those that a call had which failed. See `slow_start`.
        self.window = 1
        # The records that a command sends to the dead letters, the first one included, and why.
        self.by_hand: list[Entry] = []
        self.by_hand_reason = ""
        # Whether its records count as parked, and how many of them have been counted so far.
        self.is_parked = True
        self.counted = 0

    def owner_behind(self, _name: Name) -> Owner | None:
        """Return what still runs of the key."""
        return self.behind

    def is_by_hand(self, place: int) -> bool:
        """Tell whether a command sends the record at a place to the dead letters."""
        return place < len(self.q) and any(self.q[place] is one for one in self.by_hand)

    def disown(self) -> None:
        """Own the key no more: what still runs of it does, if anything."""
        if self.behind is not None and self.behind[0].is_live(self.behind[1]):
            self.owners[self.key] = self.behind
        else:
            self.owners.pop(self.key, None)

    def count(self) -> None:
        """Count the records that came since the last call; they were routed into the backlog."""
        if self.is_parked and self.counted < len(self.q):
            move(list(self.q)[self.counted :], 1)
        self.counted = len(self.q)

    def set_parked(self, *, parked: bool) -> None:
        """Count all records here as waiting, or in the backlog."""
        self.count()
        if parked != self.is_parked:
            self.is_parked = parked
            move(self.q, 1 if parked else -1)

    def put_first(self, entries: Sequence[Entry]) -> None:
        """Put records that count in the backlog in front of the others."""
        self.count()
        self.q.extendleft(reversed(entries))
        self.counted += len(entries)
        self.sent += len(entries)
        if self.is_parked:
            move(entries, 1)

    def take_first(self) -> Entry:
        """Remove the first record; it then counts in the backlog."""
        self.count()
        entry = self.q.popleft()
        self.counted -= 1
        if self.is_parked:
            move((entry,), -1)
        return entry


def move(entries: Iterable[Entry], sign: int) -> None:
    """Count records as waiting, with the sign -1 in the backlog again."""
    for epoch, run in groupby(entries, itemgetter(EPOCH)):
        sizes = [entry[SIZE] for entry in run]
        epoch.tally.park(sign * len(sizes), sign * sum(sizes))
