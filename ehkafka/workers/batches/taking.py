"""Which records of an inbox are its next batch, and when that goes.

Pure; time comes in as an argument; the caller has the hub's lock: no batch worker takes anything without it.

Which record is to blame when a handler raises is unknown, so a raise spends no attempt while the batch has
more than one record: they wait again, *narrowed* to batches half as large, until the culprit has a batch of
its own. Its attempts are its own then, and no other record is retried, skipped or dead-lettered for it. A
record that is narrowed stays so until it ends: its batch may have raised because of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from ehkafka.lanes.decision import Attempts
from ehkafka.lanes.inbox import EPOCH, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.lanes.routing import Name

# Keys take turns in an inbox after calls that took so long for each record that waits there: twenty times as
# long as that takes.
MIX_S: Final = 10e-6


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch becomes, and how long it waits for that.

    It goes when `records_max` or `bytes_max` (of values) are there, or `wait_s_max` after its first record
    was received. A record above `bytes_max` is a batch by itself.
    """

    records_max: int
    bytes_max: int | None
    wait_s_max: float


class Taking:
    """Takes batches out of the inboxes of one handler."""

    def __init__(self, inboxes: Inboxes, limits: BatchLimits) -> None:
        self._inboxes = inboxes
        self._limits = limits
        self._attempts = inboxes.router.attempts

    def due_s(self, inbox: Inbox, now_s: float) -> float | None:
        """Return when the next batch of an inbox goes, `now_s` or earlier: now. None: nothing waits."""
        if not inbox.q:
            return None
        first = inbox.q[0]
        # A partition that is being drained gets nothing more, and the drain waits for it. What waits again
        # after a raise has waited already.
        drains = any(epoch.drain_limit is not None for epoch in self._inboxes.router.epochs.values())
        if drains or self._limit_of(first) is not None or self._is_enough(inbox):
            return now_s
        mark = first[EPOCH].received.batches.at(first[MESSAGE].offset())
        return (now_s if mark is None else mark.received_at_s) + self._limits.wait_s_max

    def _is_enough(self, inbox: Inbox) -> bool:
        limits = self._limits
        if len(inbox.q) >= limits.records_max:
            return True
        enough = limits.bytes_max
        if enough is None or self._inboxes.tally.backlog_bytes < enough:
            return False  # without counting what waits
        return sum(len(entry[MESSAGE]) for entry in inbox.q) >= enough

    def take(self, inbox: Inbox, spent_s: float = 0.0) -> list[Entry]:
        """Take a batch: what waits there, in order, as far as there is room. Something must wait.

        `spent_s` is what the worker's last call took. Where that was long, a key with many records does not
        fill the batch while others wait.
        """
        if spent_s > MIX_S * len(inbox.q):
            self._mix(inbox)
        narrowed_to = self._limit_of(inbox.q[0])
        records = self._limits.records_max if narrowed_to is None else narrowed_to
        if self._has_called(islice(inbox.q, records)):
            alike = takewhile(lambda entry: self._limit_of(entry) == narrowed_to, inbox.q)
            records = sum(1 for _ in islice(alike, records))
        if self._limits.bytes_max is not None:
            records = _fitting(islice(inbox.q, records), self._limits.bytes_max)
        return self._inboxes.take(inbox, records)

    def _mix(self, inbox: Inbox) -> None:
        """Let keys take turns, one record of each, if the next batch would be of few keys."""
        router, records = self._inboxes.router, self._limits.records_max
        if len(inbox.q) <= records or self._has_called(inbox.q):
            return
        router.unread.end()
        if 2 * len({router.name_of(entry) for entry in islice(inbox.q, records)}) >= records:
            return
        turns: Counter[Name] = Counter()

        def turn_of(entry: Entry) -> int:
            turns[router.name_of(entry)] += 1
            return turns[router.name_of(entry)]

        router.put_all(inbox, sorted(inbox.take_back(), key=turn_of))

    def _has_called(self, entries: Iterable[Entry]) -> bool:
        """Tell whether any of these was called before: it may be narrowed."""
        known = self._attempts
        return bool(known) and not known.keys().isdisjoint(id(entry[MESSAGE]) for entry in entries)

    def _limit_of(self, entry: Entry) -> int | None:
        known = self._attempts.get(id(entry[MESSAGE]))
        return None if known is None else known.together_max

    def narrow(self, entries: Iterable[Entry], records: int) -> None:
        """Let these, which are unfinished, be in batches of so many records at most: their handler raised."""
        for entry in entries:
            self._attempts.setdefault(id(entry[MESSAGE]), Attempts()).together_max = records


def _fitting(entries: Iterable[Entry], bytes_max: int) -> int:
    """Return how many of these fit together: one at least."""
    records, room = 0, bytes_max
    for entry in entries:
        room -= len(entry[MESSAGE])
        if records and room < 0:
            break
        records += 1
    return records
