"""Records whose keys are not read: all of a handler's wait in one inbox, where they are in order anyway.

Pure; the caller has the lock. For quick handlers, which one consumer runs faster than several, and for
handlers with one consumer. The keys are read when one is needed: a record has failed, a call takes long, a
key is to be found, something begins, drains or ends. Reading them runs no code of the user's: handlers with
an order function of their own, or who are given the engine's messages, never get here.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox
    from ehkafka.lanes.routing import Router
    from ehkafka.records import Message

    ReadKeys = Callable[[Sequence[Message]], Sequence[Hashable]]


class _Unread:
    """The key of a record that was not read."""

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Final = _Unread()
_key_of: Final = itemgetter(KEY)


class Unread:
    """The unread records of one handler."""

    def __init__(self, router: Router, read_keys: ReadKeys | None) -> None:
        """`read_keys` runs none of the user's code; None where keys are always read before."""
        self._router = router
        self._read_keys = read_keys
        # Where all records go; None while keys are read. Invariant: while it is set, no other inbox and no
        # waiting key has anything, so no owner is live but those in this very inbox.
        self.inbox: Inbox | None = None
        # Failures need keys: until then they are read, so that a failure finds its key's records by owner.
        self.not_before = 0

    def takes(self) -> bool:
        """Tell whether records may go unread now; begin it where they may."""
        return self.inbox is not None or self._begin()

    def is_possible(self) -> bool:
        """Tell whether `takes` is worth asking; else keys are read before the lock is taken. Needs none."""
        router = self._router
        return self._read_keys is not None and router.width == 1 and not (router.held or router.trials.keys)

    def _begin(self) -> bool:
        router = self._router
        if not self.is_possible() or router.piles.all():
            return False
        if router.tally.received_records < self.not_before or not router.open:
            return False
        if any(epoch.drain_limit is not None for epoch in router.epochs.values()):
            return False
        home = router.open[0]
        if home.stuck or any(not inbox.is_empty() for inbox in router.moving() if inbox is not home):
            return False
        self.inbox = home
        return True

    @property
    def is_on(self) -> bool:
        """Whether all records go into one inbox, those included whose keys were read."""
        return self.inbox is not None

    def receive(
        self,
        epoch: Epoch,
        messages: Sequence[Message],
        keys: Sequence[Hashable] | None,
        sizes: Sequence[int],
    ) -> None:
        """Put records of one partition, ascending, behind all others. `keys` may have been read before."""
        inbox = self.inbox
        assert inbox is not None
        self._router.note(inbox)
        known = repeat(UNREAD) if keys is None else keys
        entries: list[Entry] = list(zip(messages, known, sizes, repeat(epoch)))
        self._router.count_in(epoch, entries, sum(sizes))
        inbox.log.extend(entries)
        inbox.q.extend(entries)
        inbox.sent += len(entries)
        self._router.touched.add(inbox)

    def end(self, *, rest_records: int = 0) -> None:
        """Read the keys of all that is unread; each then owns its inbox, and routing goes by them.

        For the next `rest_records` received records keys are read in any case.
        """
        inbox, self.inbox = self.inbox, None
        if inbox is None:
            return
        router = self._router
        self.not_before = router.tally.received_records + rest_records
        taken = inbox.take_back()
        router.note(inbox)
        running = inbox.running()
        entries = self.with_keys([*running, *taken])
        self._put_into_order(entries)
        for place, entry in enumerate(entries[: len(running)]):
            inbox.log[place] = entry
            if router.keeps_key(entry):
                entry[EPOCH].owners[entry[KEY]] = (inbox, inbox.noted + 1 + place)
        for entry in entries[len(running) :]:
            router.place(entry)

    def with_keys(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries, each with its key. Needs no lock."""
        keys = self.keys_of(entries)
        return [
            entry if entry[KEY] is key else (entry[MESSAGE], key, entry[SIZE], entry[EPOCH])
            for entry, key in zip(entries, keys, strict=True)
        ]

    def keys_of(self, entries: Sequence[Entry]) -> list[Hashable]:
        """Return the entries' keys, all read at once. Needs no lock."""
        keys = list(map(_key_of, entries))
        if self._read_keys is not None and UNREAD in keys:
            places = [place for place, key in enumerate(keys) if key is UNREAD]
            read = self._read_keys([entries[place][MESSAGE] for place in places])
            for place, key in zip(places, read, strict=True):
                keys[place] = key
        return keys

    def keyed(self, entry: Entry) -> Entry:
        """Return an entry with its key. Needs no lock."""
        if entry[KEY] is not UNREAD:
            return entry
        assert self._read_keys is not None
        return entry[MESSAGE], self._read_keys((entry[MESSAGE],))[0], entry[SIZE], entry[EPOCH]

    @staticmethod
    def _put_into_order(entries: Sequence[Entry]) -> None:
        """Let the epochs know the entries as they are now."""
        made = {id(entry[MESSAGE]): entry for entry in entries}
        for epoch in {entry[EPOCH] for entry in entries}:
            epoch.order = deque(made.get(id(entry[MESSAGE]), entry) for entry in epoch.order)
