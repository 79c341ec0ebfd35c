"""What is true in a history of inboxes, kept apart from them: what runs, what has ended, what must wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from tests.lanes.inbox_consumers import entry_of

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.inboxes import Inboxes


class Truth:
    """Compares each start and each outcome with what is promised."""

    def __init__(self, partitions: range, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.core: Inboxes
        self.consumers: list[Any] = []
        # What consumers have posted: inboxes, failed records and the later ones of their keys.
        self.failed: list[tuple[Inbox, list[tuple[Entry, Any]]]] = []
        # Inboxes whose first records are to be inspected, because a key waits.
        self.inspections: list[Inbox] = []
        self.inside = False  # whether the core is at work, and consumers may run between two of its steps
        self.calls = 0
        self.done: dict[int, set[int]] = {p: set() for p in partitions}
        # Of each epoch, the offsets that have an outcome, or had one before.
        self.finished: dict[Epoch, set[int]] = {}
        self.running: dict[Any, list[Any]] = {}
        self.last: dict[Any, int] = {}
        # Failed records that are to be called again, or are on hold: no later one of their key may pass them.
        self.unsettled: dict[Any, Entry] = {}
        # Keys whose next records must not run, because one was dead-lettered.
        self.followed: set[Any] = set()
        # Messages whose calls run on while their key continues: a command. They overlap with anything.
        self.freed: set[int] = set()

    def name(self, entry: Entry) -> Any:
        """Return what an entry must not overlap with."""
        message: Any = entry[MESSAGE]
        return message.lane_key if self.is_shared else (message.partition(), message.lane_key)

    def starts(self, entry: Entry, batch: Any = ()) -> None:
        """Check that a record may start now, and note that it runs."""
        name, message = self.name(entry), entry[MESSAGE]
        others = self.running.setdefault(name, [])
        assert all(any(one[MESSAGE] is other for one in batch) for other in others), (
            "overlap",
            message,
            others,
        )
        others.append(message)  # type: ignore[arg-type]
        if not self.inside:
            self.check_allowed(entry)
        failed = self.unsettled.pop(name, entry)
        assert failed[MESSAGE] is message or failed[EPOCH].ended, (
            "passes a failed record",
            message,
            failed[MESSAGE],
        )
        if not entry[EPOCH].ended:
            assert name not in self.followed, ("runs behind a dead letter", message)
            assert message.serial >= self.last.get(name, -1), ("swapped", message)  # type: ignore[attr-defined]
            assert message.offset() not in self.done_here(entry), ("twice", message)
            self.last[name] = message.serial  # type: ignore[attr-defined]
        self.calls += 1

    def check_allowed(self, entry: Entry) -> None:
        """Check that nothing forbids that it starts."""
        epoch, router = entry[EPOCH], self.core.router
        assert router.piles.stopped is None, ("starts in a stopped handler", entry[MESSAGE])
        assert epoch not in router.piles.unopened, ("starts before its partition is open", entry[MESSAGE])
        limit = epoch.drain_limit
        may_start = not epoch.ended and (limit is None or entry[MESSAGE].offset() <= limit)
        assert may_start, ("starts though its epoch drains or has ended", entry[MESSAGE])

    def done_here(self, entry: Entry) -> set[int]:
        """Return the offsets with an outcome in an epoch."""
        return self.finished[entry[EPOCH]]

    def stops(self, entry: Entry) -> None:
        """Note that a record runs no more."""
        if entry[MESSAGE].serial in self.freed:  # type: ignore[attr-defined]
            return
        name = self.name(entry)
        self.running[name].remove(entry[MESSAGE])  # type: ignore[arg-type]
        if not self.running[name]:
            del self.running[name]

    def ends(self, entry: Entry) -> None:
        """Note that a call has ended well."""
        self.stops(entry)
        if not entry[EPOCH].ended:
            self.outcome(entry)

    def outcome(self, entry: Entry) -> None:
        """Note that a record has its outcome."""
        offset = entry[MESSAGE].offset()
        assert offset not in self.done_here(entry), ("two outcomes", entry[MESSAGE])
        self.done_here(entry).add(offset)
        unsettled = self.unsettled.get(self.name(entry))
        if unsettled is not None and unsettled[MESSAGE] is entry[MESSAGE]:
            del self.unsettled[self.name(entry)]
        self.done[entry[MESSAGE].partition()].add(offset)

    def check_answers(self, core: Inboxes) -> None:
        """Compare what is asked of inboxes with what consumers have."""
        current = set(core.router.epochs.values())
        running = [entry for consumer in self.consumers for entry in consumer.has_any()]
        running += [
            one for _, failures in self.failed for entry, later in failures for one in (entry, *later)
        ]
        found = {id(entry[MESSAGE]) for entry in core.running()}
        assert found >= {id(entry[MESSAGE]) for entry in running}, ("does not know what runs", running)
        for entry in running:
            is_current = entry[EPOCH].partition in core.router.epochs
            assert core.is_running(entry[MESSAGE]) is (True if is_current else None), entry
        waiting = [entry_of(one) for inbox in core.all_inboxes() for one in inbox.q]
        heads = [inbox.head for inbox in core.all_inboxes()]  # may be about to run
        shown = [entry_of(head)[MESSAGE] for head in heads if head and not isinstance(head, list)]
        for entry in [one for one in waiting if one[MESSAGE] not in shown][:3]:
            assert core.is_running(entry[MESSAGE]) is False, ("runs, though it waits", entry)
        runs = any(entry[EPOCH] in current for entry in (*running, *waiting))
        assert core.ending.undrained(list(current)) or not runs, "nothing is runnable"
