"""The end of an assignment: it drains, leaves records to the next owner, and keeps some keys busy here.

Pure; the caller has the lock. A call that outlives its epoch keeps its key: the owners of just these keys go
over to the partition's next epoch in this process, whose records of the key wait behind that call.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from ehkafka.lanes.finished import FinishedBefore
    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry, Inbox, Owner
    from ehkafka.lanes.routing import Router
    from ehkafka.lanes.waiting import WaitingKeys
    from ehkafka.records import TopicPartition


class Work(NamedTuple):
    """The records that a drain still has to finish. Those of one key run one after another on any worker."""

    records: int
    longest_key_records: int

    def needs_s(self, mean_s: float, workers: int) -> float:
        """Return how long it takes so many workers, at a mean time for each record."""
        return mean_s * max(self.records / workers, self.longest_key_records)


class Ending:
    """Begins, drains and ends the epochs of one handler."""

    def __init__(self, router: Router, waiting: WaitingKeys) -> None:
        self._router = router
        self._waiting = waiting
        # Owners of keys whose calls have outlived their epoch, for the partition's next one.
        self._carried: dict[TopicPartition, dict[Hashable, Owner]] = {}

    def begin(
        self,
        partition: TopicPartition,
        number: int,
        finished_before: FinishedBefore | None = None,
    ) -> Epoch:
        """Begin an epoch. Keys whose call from an earlier one still runs here wait for it."""
        router = self._router
        assert partition not in router.epochs, f"{partition} is assigned twice"
        owners = router.shared if router.shared is not None else self._carried.pop(partition, {})
        router.epochs[partition] = Epoch(partition, number, owners, finished_before, router.tally)
        return router.epochs[partition]

    # -- draining --------------------------------------------------------------------------------------

    def drain(self, epochs: Sequence[Epoch], fits: Callable[[Work], bool] | None) -> bool:
        """Cut epochs short before they end; tell whether more than what runs now may still start.

        What lies below the highest started offset of each may, if `fits` finds that there is time for it:
        that leaves no hole, so the next owner repeats nothing. Else, and without `fits`, only what runs now
        ends. The rest is left for the next owner. To be asked again while a drain lasts: records fail, and
        time passes.
        """
        self._router.unread.end()
        self._router.slow.end_all()
        taken = [(inbox, self._take_back(inbox)) for inbox in self._all()]
        waiting = [entry for _, entries in taken for entry in entries]
        waiting += [entry for held in self._waiting.held for entry in list(held.q)[held.ticket is not None :]]
        for epoch in epochs:
            if epoch.drain_limit is None:
                epoch.drain_limit = epoch.highest_started(waiting) if fits is not None else -1
            # A record that waits leaves a hole anyway: nothing above it need be finished.
            heads = (held.q[0] for held in self._waiting.held if held.q and held.ticket is None)
            offsets = [entry[MESSAGE].offset() for entry in heads if entry[EPOCH] is epoch]
            epoch.drain_limit = min([epoch.drain_limit if fits is not None else -1, *offsets])
        self._put_back(taken)
        if fits is None:
            return False
        # For the whole handler, whose partitions share its workers: all of them or none.
        return fits(self._work(epochs)) or self.drain(epochs, None)

    def _put_back(self, taken: Iterable[tuple[Inbox, list[Entry]]]) -> None:
        """Put back what may start, and leave the rest for the next owner.

        A record that has failed, alone or with its batch, keeps its key until its epoch ends: no later one of
        the key may pass it.
        """
        router = self._router
        kept: dict[tuple[int, Hashable], Held] = {}
        for inbox, entries in taken:
            for entry in entries:
                name = id(entry[EPOCH].owners), entry[KEY]
                if (held := kept.get(name)) is not None:
                    router.put(held, entry)
                elif entry[EPOCH].may_start(entry):
                    router.put(inbox, entry)
                elif id(entry[MESSAGE]) in router.attempts:
                    kept[name] = self._waiting.keep(entry)
                else:
                    router.give_back(entry)

    def sort_out(self, inbox: Inbox) -> None:
        """Take out of an inbox what may not start any more."""
        self._put_back([(inbox, self._take_back(inbox))])

    def is_drained(self, epochs: Sequence[Epoch]) -> bool:
        """Tell whether nothing of these epochs runs or may still start."""
        return not self.undrained(epochs)

    def undrained(self, epochs: Sequence[Epoch]) -> set[Epoch]:
        """Return those of which something runs or may still start."""
        if self._router.piles.stopped is not None:
            return {entry[EPOCH] for entry in self._unfinished(epochs)}
        # Looked at each millisecond while a partition drains, and the backlog of others may be long.
        self._router.note_all()
        open_ones = {epoch for epoch in epochs if epoch.tally.backlog_records}
        tickets = (held for held in self._waiting.held if held.ticket is not None and held.q)
        return open_ones.union(epoch for held in tickets if (epoch := held.q[0][EPOCH]) in epochs)

    def _work(self, epochs: Sequence[Epoch]) -> Work:
        keys = Counter((id(entry[EPOCH].owners), entry[KEY]) for entry in self._unfinished(epochs))
        return Work(keys.total(), max(keys.values(), default=0))

    def _unfinished(self, epochs: Sequence[Epoch]) -> Iterator[Entry]:
        wanted = set(epochs)
        for inbox in self._all():
            if inbox is self._router.piles.stopped:
                continue  # nothing of a stopped handler starts
            self._router.note(inbox)
            yield from (entry for entry in list(inbox.log) if entry[EPOCH] in wanted)
        for held in self._waiting.held:
            if held.ticket is not None and held.q and held.q[0][EPOCH] in wanted:
                yield held.q[0]

    def _all(self) -> list[Inbox]:
        router = self._router
        return [*router.inboxes, *router.leaving, *router.piles.all()]

    def _take_back(self, inbox: Inbox) -> list[Entry]:
        entries = inbox.take_back()
        self._router.note(inbox)
        return entries

    # -- the end ---------------------------------------------------------------------------------------

    def end(self, epochs: Sequence[Epoch]) -> list[int]:
        """End epochs that end together: nothing of them starts, and what runs ends without a result.

        Returns how many records each left for its next owner. What has finished since the caller looked for
        the last commit counts as ignored: that commit does not pass it.
        """
        router = self._router
        for epoch in epochs:  # all before any: a key that one of them lets go must not start another's record
            epoch.ended = True
            epoch.drain_limit = -1
            del router.epochs[epoch.partition]
        router.unread.end()  # what has finished since then counts as ignored, too
        router.slow.end_all()
        gone = set(epochs)
        self._clear_inboxes(gone)
        for held in list(self._waiting.held):
            self._clear(held, gone)
        for epoch in epochs:
            router.piles.let_in(epoch)  # what waits behind a partition that was never opened is another's
            _count_running(epoch)
            if router.shared is None and epoch.owners:
                self._carried[epoch.partition] = epoch.owners
        for where, keys in list(self._carried.items()):
            if not any(inbox.is_live(number) for inbox, number in keys.values()):
                del self._carried[where]
        if router.shared is not None and not router.epochs:
            # Of all partitions, so no one partition's end takes them away; without any, no key is left.
            for held in [held for held in self._waiting.held if held.ticket is None]:
                self._waiting.forget_why(held)
                self._waiting.take_away(held, ())
        return [epoch.tally.returned_records for epoch in epochs]

    def _clear_inboxes(self, gone: set[Epoch]) -> None:
        """Take what waits of ended epochs out of all inboxes, and keep the keys of what runs."""
        router = self._router
        taken = [(inbox, self._take_back(inbox)) for inbox in self._all()]
        # As long as a call of a key runs here, the key's next record goes behind that call.
        kept = [kept for inbox, _ in taken for kept in router.running_keys(inbox)]
        if router.shared is None:
            for epoch in gone:
                epoch.owners.clear()
        for entry, owner in kept:
            entry[EPOCH].owners[entry[KEY]] = owner
        for inbox, entries in taken:
            for entry in entries:
                if entry[EPOCH] in gone:
                    router.give_back(entry)
                else:
                    router.put(inbox, entry)

    def _clear(self, held: Held, gone: set[Epoch]) -> None:
        """Take what waits of ended epochs out of a waiting key."""
        held.owners[held.key] = (held, held.sent)
        # Where a ticket waits for its answer, the first record's work continues somewhere: its key waits,
        # too, and the answer will count for nothing.
        mine = [entry for entry in list(held.q)[held.ticket is not None :] if entry[EPOCH] in gone]
        if self._router.shared is None and any(epoch.owners is held.owners for epoch in gone):
            self._waiting.forget_why(held)
            self._waiting.take_away(held, mine)
        elif mine or (held.ticket is not None and held.q[0][EPOCH].ended):
            self._waiting.take_away(held, mine)


def _count_running(epoch: Epoch) -> None:
    """Count what still runs as left for the next owner: no wait includes it any more."""
    epoch.tally.give_back(epoch.tally.backlog_records, epoch.tally.backlog_bytes)
