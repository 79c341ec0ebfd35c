"""All outputs that are not acknowledged, in the order in which they were put.

Workers put, the sender moves and lets go, the poll thread reads whose offsets wait and ends epochs. One lock,
a leaf: it is taken with or without a hub's, and no other is taken under it.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import chain, islice, repeat, starmap
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.output import (
    PARTS,
    SOURCE,
    Output,
    Source,
    entries_of,
    has_ended,
    outputs_of,
    places_of,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.batch import Batch
    from ehkafka.outputs.turns import Line

# How much may be on its way. Then workers wait for room, and so does the intake behind them.
OUTPUTS_MAX: Final = 50_000
OUTPUT_BYTES_MAX: Final = 64 * 1_048_576
# The bytes of small outputs count once the sender takes them, or once so many more wait for it.
COUNT_EACH: Final = 4_096
SMALL_BYTES_MAX: Final = 16 * 1024
# While so many wait for the sender, nothing more is received.
BEHIND: Final = 10_000
# Between two looks of a waiting worker whether its epoch has ended.
ROOM_CHECK_S: Final = 50e-3


class NotSentError(RuntimeError):
    """An output was not taken: its record belongs to another member, or the app has stopped."""


class Unacknowledged:
    """Knows each output from the moment it is put to its acknowledgement.

    Invariant: while an output is put and not acknowledged, it stands in one of the lists below whenever the
    lock can be had.
    """

    def __init__(
        self, outputs_max: int = OUTPUTS_MAX, bytes_max: int = OUTPUT_BYTES_MAX, *, waits: bool = True
    ) -> None:
        """Not `waits`: no worker ever waits for room, see `is_over_bound`."""
        self._outputs_max = outputs_max
        self._bytes_max = bytes_max
        self._waits = waits
        self.lock = threading.Lock()
        self._room = threading.Condition(self.lock)
        # What workers have put since the sender looked, flat. `extend` by a tuple or a list is atomic, and of
        # a key only one worker puts at a time. The sender takes it out under the lock.
        self.added: deque[Any] = deque()
        # All under the lock, changed by the sender alone, each in the order of the puts. What the client has;
        # flat: what waits for its partition's turn, or for the first acknowledgement of its key.
        self.batches: dict[Batch, None] = {}
        self.lines: dict[Line, list[Any]] = {}
        # Exactly once: what a transaction has, and what waits for one; flat.
        self.sent: list[Any] = []
        self.parked: list[Any] = []
        # By group, or a number where that is None: what goes alone; see `aside`.
        self.aside: dict[object, deque[Output]] = {}
        # Those of them that wait for the next start, which is not waited for.
        self.kept: set[object] = set()
        # Of all that was taken out of `added`; and of what is there, as far as counted. Under the lock.
        self._taken = 0
        self._bytes = 0
        self._added_bytes = 0
        # With so many parts in `added` a worker counts its bytes. Written under the lock.
        self.count_at = COUNT_EACH * PARTS
        self.is_closed = False
        # Nothing may be put without the lock: there is no room, or it is closed. Written under the lock.
        self.is_full = False
        # Called after something was put while the sender sleeps. Set once, by the sender.
        self.wake: Callable[[], object] = lambda: None
        # The sender's: set before it looks whether anything is new and then sleeps; a worker looks at it
        # after it has put. So one of the two sees the other, and a busy sender costs no wake-up an output.
        self.sleeps = False

    # -- workers ---------------------------------------------------------------------------------------

    def put(self, source: Entry | Source, flat: Sequence[Any], size: int, *, waits: bool = True) -> None:
        """Take a call's outputs, together and in this order; from here on their records wait.

        Waits for room if it may: never on a thread that others need. Raises `NotSentError` where the epoch
        has ended. If that ends at this moment, the outputs are dropped later: an epoch's end looks at `added`
        under the lock, and the sender at each output before it hands it over.
        """
        if self.is_full and waits and self._waits:
            with self.lock:
                while not (self._has_room() or self.is_closed or has_ended(source)):
                    self._room.wait(ROOM_CHECK_S)
        if self.is_closed or has_ended(source):
            raise self._not_sent(source)
        self.added.extend(flat)
        if len(self.added) >= self.count_at or size > SMALL_BYTES_MAX:
            with self.lock:
                self._count_added()
        if self.sleeps or isinstance(source, Source):  # its acknowledgement is waited for
            self.wake()

    def _not_sent(self, source: Entry | Source) -> NotSentError:
        epoch, offset = next(places_of([source]))
        why = "the app stops" if self.is_closed else "its partition was taken away"
        return NotSentError(f"{epoch.partition}@{offset}: its outputs are not sent: {why}")

    def has_room(self) -> bool:
        """Tell whether a worker may put without waiting."""
        with self.lock:
            return not self._waits or self._has_room()

    def _count_added(self) -> None:
        """Count what was put since the last count: a worker that counts all would look as if it were slow."""
        parts = len(self.added) + COUNT_EACH * PARTS - self.count_at
        # From its right end and in one call: workers go on to put, and an iterator of a deque minds that.
        new = list(islice(reversed(self.added), max(parts, 0)))
        self._added_bytes += size_of(new[::-1])
        self.count_at = max(self.count_at, self.count_at + parts)
        self.note_room()

    def _has_room(self) -> bool:
        return not self._is_over_bound()

    def is_over_bound(self) -> bool:
        """Tell whether there is so much that nothing more should be received. Any thread."""
        with self.lock:
            return self._is_over_bound()

    def is_behind(self) -> bool:
        """Tell whether the sender is so far behind that nothing more should be received. Any thread.

        Else workers would wait for room, and a call that waits looks like a slow one: its worker's other
        records would go to others.
        """
        return len(self.added) >= BEHIND * PARTS or self.is_over_bound()

    def _is_over_bound(self) -> bool:
        # What is counted of `added` counts while there is any: a put that came too late stays out of it.
        added_bytes = self._added_bytes if self.added else 0
        return self._count() >= self._outputs_max or self._bytes + added_bytes >= self._bytes_max

    def note_room(self) -> None:
        """Let workers see how much room there is. Caller has the lock."""
        self.is_full = self.is_closed or (self._waits and self._is_over_bound())
        self._room.notify_all()

    # -- the sender ------------------------------------------------------------------------------------

    def take(self, outputs_max: int) -> list[Any]:
        """Take so many of what was put out of `added`, flat. Caller has the lock, and sorts them in."""
        added = self.added
        count = min(len(added) // PARTS, outputs_max)
        taken = list(starmap(added.popleft, repeat((), count * PARTS)))
        size = size_of(taken)
        self._taken += count
        self._bytes += size
        # What is counted of the rest stands at its left end.
        self._added_bytes = max(0, self._added_bytes - size) if added else 0
        self.count_at = max(self.count_at - len(taken), COUNT_EACH * PARTS)
        return taken

    def put_back(self, flat: Sequence[Any]) -> None:
        """Put back what was taken and has no room anywhere. Caller has the lock."""
        size = size_of(flat)
        self._taken -= len(flat) // PARTS
        self._bytes -= size
        self._added_bytes += size
        self.count_at += len(flat)
        self.added.extendleft(reversed(flat))

    def let_go(self, flat: Sequence[Any]) -> None:
        """Count outputs no more. Caller has the lock, and has taken them out of their list."""
        self._taken -= len(flat) // PARTS
        self._bytes -= size_of(flat)
        self.note_room()

    # -- any thread ------------------------------------------------------------------------------------

    def count(self) -> int:
        """Return how many outputs are not acknowledged."""
        with self.lock:
            return self._count()

    def _count(self) -> int:
        return len(self.added) // PARTS + self._taken

    def is_under_way(self) -> bool:
        """Tell whether an acknowledgement may come for some output."""
        with self.lock:
            return self._count() > sum(len(self.aside[place]) for place in self.kept)

    def sources(self, *, with_kept: bool = True) -> Iterator[Entry | Source]:
        """Return what each output is of."""
        with self.lock:
            # In one call: workers go on to put, and an iterator of a deque minds that.
            added = list(self.added)[SOURCE::PARTS]
            flats = [flat[SOURCE::PARTS] for flat in (self.sent, self.parked, *self.lines.values())]
            places = self.aside.keys() - (() if with_kept else self.kept)
            batches, aside = list(self.batches), [one for place in places for one in self.aside[place]]
        # Outside of the lock: there may be thousands, and the sender would wait.
        batched = (batch.flat[SOURCE::PARTS] for batch in batches)
        return chain(added, *batched, *flats, [output.source for output in aside])

    def lowest(self) -> dict[Epoch, int]:
        """Return the lowest offset of each epoch that must not be committed."""
        lowest: dict[Epoch, int] = {}
        others: list[Entry | Source] = []
        for source in self.sources():
            if type(source) is not tuple:
                others.append(source)
                continue
            # As `places_of`, without its price: a commit looks at all that is on its way.
            epoch, offset = source[EPOCH], source[MESSAGE].offset()
            if lowest.get(epoch, offset) >= offset:
                lowest[epoch] = offset
        for epoch, offset in places_of(others):
            lowest[epoch] = min(offset, lowest.get(epoch, offset))
        return lowest

    def waiting_epochs(self) -> set[Epoch]:
        """Return whose records have outputs for which an acknowledgement may come."""
        others: list[Entry | Source] = []
        epochs: set[Epoch] = set()
        for source in self.sources(with_kept=False):
            if type(source) is tuple:
                epochs.add(source[EPOCH])
            else:
                others.append(source)
        return epochs.union(epoch for epoch, _ in places_of(others))

    def waiting(self) -> dict[Epoch, set[int]]:
        """Return the offsets of each epoch's records that wait."""
        waiting: dict[Epoch, set[int]] = {}
        for epoch, offset in places_of(self.sources()):
            waiting.setdefault(epoch, set()).add(offset)
        return waiting

    def behind(self, output: Output) -> list[Output]:
        """Return an output that goes alone, with what waits behind it."""
        with self.lock:
            return list(self.aside.get(output.group, (output,)))

    def key_of(self, epoch: Epoch, offset: int) -> bytes | None:
        """Return the key of a record that waits; None also where it was acknowledged meanwhile."""
        for source in self.sources():
            for message, _, _, its_epoch in entries_of(source):
                if its_epoch is epoch and message.offset() == offset:
                    return message.key()
        return None

    # -- the end ---------------------------------------------------------------------------------------

    def end(self) -> bool:
        """Drop what is of epochs that have ended; True: a client may have some of it. Poll thread.

        An output of records of several partitions stays while one of them is ours.
        """
        with self.lock:
            dropped: list[Output] = []
            # A transaction may look at the old list now, and sees that it is not that any more.
            self.parked, added = self.parked.copy(), self.take(len(self.added))
            for flat in (added, self.parked, *self.lines.values()):
                flat[:] = chain.from_iterable(self.without_ended(outputs_of(flat), dropped))
            self.put_back(added)
            with_clients = chain(chain.from_iterable(self.batches), *self.aside.values())
            others = any(output.has_ended for output in with_clients)
            self.note_room()
        report_gone(dropped)
        return others

    def without_ended(self, given: Iterable[Output], dropped: list[Output]) -> list[Output]:
        """Return what is not of ended epochs; count the rest no more, and add it to `dropped`.

        Caller has the lock.
        """
        kept: list[Output] = []
        for output in given:
            if output.has_ended:
                self.let_go(output)
                dropped.append(output)
            else:
                kept.append(output)
        return kept

    def close(self) -> None:
        """Take nothing any more; workers that wait for room are let go."""
        with self.lock:
            self.is_closed = True
            self.note_room()


def report_gone(dropped: Sequence[Output]) -> None:
    """Let the sources of dropped outputs hear of it, without the lock."""
    for source in {id(one.source): one.source for one in dropped}.values():
        if isinstance(source, Source):
            source.gone()
